import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createCluster } from '@redis/client';
import { Redis } from 'ioredis';
import { processCases, storeCases } from 'spillway/testing';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { type RedisClient, RedisStore } from 'spillway-redis';
import { pass } from './fixtures/state.ts';

for (const policy of ['always', 'everysec']) {
  describe(`RedisStore, as every store, ${policy}`, requires('redis-server'), () => {
    const resources = new AsyncDisposableStack();
    let server: RedisServer;

    before(async () => {
      server = resources.use(await RedisServer.start({ settings: [`appendfsync ${policy}`] }));
    });

    after(() => resources.disposeAsync());

    for (const [at, { name, run }] of storeCases.entries()) {
      it(name, async () => {
        await run({
          open: () => RedisStore.open({ url: server.url, name: `case${at}` }),
          pass: (ms) => pass((...command) => server.ask(...command), ms, `case${at}`),
        });
      });
    }
  });
}

describe('RedisStore with the client of ioredis, as every store', requires('redis-server'), () => {
  const resources = new AsyncDisposableStack();
  let server: RedisServer;

  before(async () => {
    server = resources.use(await RedisServer.start());
  });

  after(() => resources.disposeAsync());

  for (const [at, { name, run }] of storeCases.entries()) {
    it(name, async () => {
      await using stack = new AsyncDisposableStack();
      const open = async () => {
        const client = new Redis(server.url, {
          autoResendUnfulfilledCommands: false,
          enableOfflineQueue: false,
          maxRetriesPerRequest: 0,
        });
        stack.defer(() => client.disconnect());
        await new Promise((resolve) => client.once('ready', resolve));
        return await RedisStore.open({ client, name: `io${at}` });
      };
      const ask = (...command: string[]) => server.ask(...command);
      await run({ open, pass: (ms) => pass(ask, ms, `io${at}`) });
    });
  }
});

/** Plays the roles of the process cases, on one server or on all of a cluster. */
const program = join(import.meta.dirname, 'fixtures', 'redis-player.ts');

// With `everysec` they are played on the cluster below: each takes seconds.
describe('real processes on one Redis, always', requires('redis-server'), () => {
  for (const { name, check } of processCases) {
    it(name, async () => {
      await using server = await RedisServer.start({ settings: ['appendfsync always'] });
      await check({ program, args: [server.url] });
    });
  }
});

describe('RedisStore on a cluster, everysec', requires('redis-server'), () => {
  const resources = new AsyncDisposableStack();
  let servers: readonly RedisServer[] = [];
  let client: RedisClient;

  before(async () => {
    const settings = ['cluster-enabled yes', 'cluster-node-timeout 30000', 'appendfsync everysec'];
    // One that does not start must not leave the others running: the suite would never end.
    const start = async () => resources.use(await RedisServer.start({ settings }));
    const starts = await Promise.allSettled([start(), start(), start()]);
    servers = starts.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    });
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
    const words = ['--cluster', 'create', ...addresses, '--cluster-yes'];
    await promisify(execFile)('redis-cli', words, { timeout: 60_000 });
    await Promise.all(servers.map(clusterIsUp));
    const rootNodes = servers.map(({ url }) => ({ url }));
    const cluster = createCluster({ rootNodes, defaults: { disableOfflineQueue: true } });
    await cluster.connect();
    resources.defer(() => cluster.destroy());
    client = cluster;
  });

  after(() => resources.disposeAsync());

  for (const [at, { name, run }] of storeCases.entries()) {
    it(name, async () => {
      const store = `cluster${at}`;
      const ask = (...command: string[]) =>
        (client as never as Sender).sendCommand(`{${store}}.state`, false, command);
      const open = () => RedisStore.open({ client, name: store });
      await run({ open, pass: (ms) => pass(ask, ms, store) });
    });
  }

  for (const { name, check } of processCases) {
    it(`${name}, on real processes`, async () => {
      await check({ program, args: servers.map(({ url }) => url) });
    });
  }
});

/** Nodes agree on their slots before each of them takes commands, by up to some seconds. */
async function clusterIsUp({ port }: RedisServer): Promise<void> {
  for (;;) {
    const words = ['-p', String(port), 'cluster', 'info'];
    const { stdout } = await promisify(execFile)('redis-cli', words, { timeout: 60_000 });
    if (stdout.includes('cluster_state:ok')) return;
    await setTimeout(50);
  }
}

interface Sender {
  sendCommand(key: string, isReadonly: boolean, args: readonly string[]): Promise<unknown>;
}
