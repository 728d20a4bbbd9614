import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createServer, type HubSocket, socketFrame, WebSocketHub } from 'spillway-http';

const fixture = join(import.meta.dirname, 'fixtures', 'socket-crowd.ts');

/** A process full of clients. */
class Crowd implements AsyncDisposable {
  readonly child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.child = child;
  }

  static async open(size: number, port: number, path: string): Promise<Crowd> {
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const child = fork(fixture, { env });
    const crowd = new Crowd(child);
    await once(child, 'message');
    const { opened } = await crowd.ask({ open: size, port, path });
    assert.equal(opened, size);
    return crowd;
  }

  async ask(order: object): Promise<Readonly<Record<string, number>>> {
    const answer = once(this.child, 'message');
    this.child.send(order);
    return (await answer)[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exit = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exit;
  }
}

setFlagsFromString('--expose-gc');
const collect: (options: object) => void = runInNewContext('gc');

/**
 * Memory that is held, in MB, without garbage and without free pages of the heap, which V8 gives
 * back when it has time. The second collection waits for buffers that another thread frees.
 */
function megabytes(): number {
  for (let at = 0; at < 2; at += 1) collect({ type: 'major', flavor: 'last-resort' });
  return process.memoryUsage.rss() / 2 ** 20;
}

describe('ten thousand sockets', () => {
  it('are held, served and rid of 20 dead ones', { timeout: 300_000 }, async (t) => {
    const hub = new WebSocketHub({
      socketsMax: 10_000,
      socketsPerAddressMax: 10_000,
      bufferedBytesMax: 16_384,
      idleMs: 600_000,
    });
    await using server = await createServer({ hub, connectionsMax: 20_000 });
    const { app } = server;
    const byPath = new Map<string, Set<HubSocket>>();
    for (const path of ['/living', '/stopped', '/killed']) {
      const sockets = new Set<HubSocket>();
      byPath.set(path, sockets);
      hub.route(app, path, {
        open: (socket) => {
          sockets.add(socket);
          hub.join(socket, 'all');
        },
        close: (socket) => void sockets.delete(socket),
      });
    }
    await server.start();
    const port = Number(new URL(server.url).port);

    const before = megabytes();
    const startedAt = performance.now();
    await using first = await Crowd.open(4_990, port, '/living');
    await using second = await Crowd.open(4_990, port, '/living');
    await using stopped = await Crowd.open(10, port, '/stopped');
    await using killed = await Crowd.open(10, port, '/killed');
    assert.equal(hub.stats.open, 10_000);
    const grown = megabytes() - before;
    t.diagnostic(`opened in ${Math.round(performance.now() - startedAt)} ms`);
    t.diagnostic(`${Math.round(grown)} MB more for 10,000 idle sockets`);
    t.diagnostic(`${Math.round(megabytes())} MB in all`);
    assert.ok(megabytes() < 250, `${megabytes()} MB`);

    const send = async (message: string): Promise<void> => {
      const order = { read: socketFrame(message).length };
      const read = Promise.all([first, second].map((crowd) => crowd.ask(order)));
      const [sentAt, cpu] = [performance.now(), process.cpuUsage()];
      const { sent } = await hub.broadcast('all', message);
      const ms = performance.now() - sentAt;
      const { user, system } = process.cpuUsage(cpu);
      const counts = (await read).map(({ exact }) => exact);
      assert.deepEqual(counts, [4_990, 4_990]);
      const cost = `${(user / 1_000).toFixed()} ms ours, ${(system / 1_000).toFixed()} ms system`;
      t.diagnostic(`${order.read} bytes to ${sent} in ${ms.toFixed()} ms (${cost})`);
    };
    for (let round = 0; round < 5; round += 1) await send('x'.repeat(200));

    const large = 'x'.repeat(3_000);
    stopped.child.kill('SIGSTOP');
    for (const socket of byPath.get('/stopped') ?? []) {
      while (socket.bufferedBytes === 0) socket.send(large);
    }
    killed.child.kill('SIGKILL');
    let rounds = 0;
    while (hub.stats.open > 9_980 && rounds < 30) {
      await send(large);
      rounds += 1;
    }
    assert.equal(hub.stats.open, 9_980);
    assert.equal(hub.count('all'), 9_980);
    const { closed } = hub.stats;
    assert.deepEqual(Object.entries(closed), Object.entries({ ...closed, slow: 10 }));
    assert.equal(
      Object.values(closed).reduce((sum, count) => sum + count, 0),
      20,
    );
    t.diagnostic(`the dead were gone after ${rounds} rounds`);

    const closedAt = performance.now();
    await server.close();
    t.diagnostic(`closed in ${Math.round(performance.now() - closedAt)} ms`);
    assert.equal(hub.stats.open, 0);
    assert.equal(server.connections, 0);
  });
});
