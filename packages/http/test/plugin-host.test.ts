import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { VirtualClock } from 'spillway/testing';
import { type Plugin, PluginHost } from 'spillway-http';
import { ask, portOf } from './ask.ts';

function logged(log: string[], plugin: Plugin): Plugin {
  const { name } = plugin;
  return {
    ...plugin,
    setup: () => log.push(`setup ${name}`),
    start: () => log.push(`start ${name}`),
    stop: () => log.push(`stop ${name}`),
  };
}

async function open(...plugins: readonly Plugin[]) {
  const host = new PluginHost({ plugins });
  const app = Fastify();
  await app.register(host.plugin);
  app.get('/ok', async () => 'ok');
  await app.listen({ port: 0, host: '127.0.0.1' });
  const base = `http://127.0.0.1:${portOf(app)}`;
  return { app, host, base, [Symbol.asyncDispose]: () => app.close() };
}

const boom = () => {
  throw new Error('boom');
};

describe('PluginHost', () => {
  it('sets up and starts in order, and stops in reverse', async () => {
    const log: string[] = [];
    const names = (...after: string[]) => ({ after });
    const plugins = [
      logged(log, { name: 'c', ...names('b', 'a') }),
      logged(log, { name: 'b', ...names('a') }),
      logged(log, { name: 'a' }),
    ];
    const { app, host } = await open(...plugins);
    await app.close();
    const order = ['a', 'b', 'c'];
    assert.deepEqual(log, [
      ...order.map((name) => `setup ${name}`),
      ...order.map((name) => `start ${name}`),
      ...order.toReversed().map((name) => `stop ${name}`),
    ]);
    assert.deepEqual(
      host.stats.plugins.map(({ state }) => state),
      ['stopped', 'stopped', 'stopped'],
    );
  });

  it('refuses cycles, names that are missing and names that come twice', () => {
    const make = (...plugins: Plugin[]) => new PluginHost({ plugins });
    assert.throws(
      () =>
        make({ name: 'a', after: ['b'] }, { name: 'b', after: ['c'] }, { name: 'c', after: ['b'] }),
      /without a cycle, got 'b after c after b'/,
    );
    assert.throws(() => make({ name: 'a', after: ['a'] }), /'a after a'/);
    assert.throws(() => make({ name: 'a', after: ['x'] }), /after of plugin "a".*got 'x'/);
    assert.throws(() => make({ name: 'a' }, { name: 'a' }), /named, each differently/);
  });

  it('keeps what one plugin adds from the others', async () => {
    await using server = await open(
      {
        name: 'a',
        setup(app) {
          app.decorate('mine', 1);
          app.addHook('onRequest', async (_request, reply) => {
            reply.header('x-a', '1');
          });
          app.get('/a', async () => 'a');
        },
      },
      {
        name: 'b',
        after: ['a'],
        setup(app) {
          assert.equal(app.hasDecorator('mine'), false);
          app.get('/b', async () => 'b');
        },
      },
    );
    assert.equal((await ask(`${server.base}/a`)).headers['x-a'], '1');
    assert.equal((await ask(`${server.base}/b`)).headers['x-a'], undefined);
    assert.equal((await ask(`${server.base}/ok`)).headers['x-a'], undefined);
  });

  it('fails with the cause when a plugin that must not fail does', async () => {
    for (const hook of ['setup', 'start'] as const) {
      await assert.rejects(open({ name: 'vital', [hook]: boom }), (error: Error) => {
        assert.equal((error as { code?: string }).code, 'PLUGIN_FAILED');
        assert.equal(error.message, `plugin "vital" failed in ${hook}: boom`);
        assert.equal((error.cause as Error).message, 'boom');
        return true;
      });
    }
  });

  it('stops what it has started when a later one fails to start', async () => {
    const log: string[] = [];
    const failing = { name: 'b', after: ['a'], start: boom, stop: () => log.push('stop b') };
    await assert.rejects(open(logged(log, { name: 'a' }), failing, logged(log, { name: 'c' })));
    assert.deepEqual(log, ['setup a', 'setup c', 'start a', 'stop c', 'stop a']);
  });

  it('goes on without one that may fail, none of whose routes can be reached', async () => {
    const half = (app: FastifyInstance) => {
      app.get('/half', async () => 'half');
      app.register((inner, _options, done) => {
        inner.get('/deep', async () => 'deep');
        done();
      });
      throw new Error('boom');
    };
    await using server = await open(
      { name: 'extra', failOpen: true, setup: half },
      { name: 'other', setup: (app) => app.get('/other', async () => 'other') },
    );
    for (const path of ['half', 'deep']) {
      const answer = await ask(`${server.base}/${path}`);
      assert.equal(answer.status, 503, path);
      assert.equal(JSON.parse(answer.text).code, 'PLUGIN_FAILED');
    }
    assert.equal((await ask(`${server.base}/ok`)).text, 'ok');
    assert.equal((await ask(`${server.base}/other`)).text, 'other');
    assert.deepEqual(server.host.stats, {
      plugins: [
        { name: 'extra', state: 'failed', after: [], failOpen: true },
        { name: 'other', state: 'started', after: [], failOpen: false },
      ],
      errors: [{ plugin: 'extra', hook: 'setup', error: { name: 'Error', message: 'boom' } }],
    });
  });

  it('counts what fails inside of a plugin, in any style, as its own failure', async () => {
    const inside: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
      promise: (app) =>
        app.register(async (inner) => {
          inner.get('/deep', async () => 'deep');
          throw new Error('boom');
        }),
      callback: (app) => {
        app.register((inner, _options, done) => {
          inner.get('/deep', async () => 'deep');
          done(new Error('boom'));
        });
      },
      unscoped: async (app) => {
        const plugin = fastifyPlugin(
          async (same: FastifyInstance) => {
            same.get('/deep', async () => 'deep');
            throw new Error('boom');
          },
          { name: 'unscoped' },
        );
        app.register(plugin);
      },
      deeper: (app) => {
        app.register(async (inner) => {
          inner.register(async (deepest) => {
            deepest.get('/deep', async () => 'deep');
            throw new Error('boom');
          });
        });
      },
    };
    for (const [style, setup] of Object.entries(inside)) {
      await using server = await open({ name: style, failOpen: true, setup });
      assert.equal((await ask(`${server.base}/deep`)).status, 503, style);
      assert.equal((await ask(`${server.base}/ok`)).status, 200, style);
      assert.equal(server.host.stats.errors.length, 1, style);
    }
    const strict = open({ name: 'strict', setup: inside.deeper as never });
    await assert.rejects(strict, { code: 'PLUGIN_FAILED' });
  });

  it('lets plugins that a plugin registers work as ever', async () => {
    await using server = await open({
      name: 'a',
      async setup(app) {
        await app.register(
          fastifyPlugin(async (same: FastifyInstance) => {
            same.decorate('shared', 5);
          }),
        );
        await app.register(
          (inner, { path }: { path: string }, done) => {
            inner.get(`/${path}`, async () => String(Reflect.get(inner, 'shared')));
            done();
          },
          { path: 'given', prefix: '/under' },
        );
      },
    });
    assert.equal((await ask(`${server.base}/under/given`)).text, '5');
  });

  it('closes the routes of one that set up but failed to start', async () => {
    await using server = await open({
      name: 'extra',
      failOpen: true,
      setup: (app) => app.get('/extra', async () => 'x'),
      start: boom,
    });
    assert.equal((await ask(`${server.base}/extra`)).status, 503);
    assert.equal((await ask(`${server.base}/ok`)).status, 200);
  });

  it('fails what builds on a failed one', async () => {
    const log: string[] = [];
    const broken = { name: 'a', failOpen: true, setup: boom };
    await using server = await open(broken, {
      ...logged(log, { name: 'b' }),
      after: ['a'],
      failOpen: true,
    });
    assert.deepEqual(log, []);
    assert.deepEqual(
      server.host.stats.plugins.map(({ state }) => state),
      ['failed', 'failed'],
    );
    const strict = { ...logged(log, { name: 'b' }), after: ['a'] };
    await assert.rejects(open(broken, strict), /"b" failed in setup: it needs "a", which failed/);
  });

  it('waits no longer for a hook than it may take, and closes what comes too late', async () => {
    for (const hook of ['setup', 'start'] as const) {
      const clock = new VirtualClock();
      const { promise: late, resolve: wake } = Promise.withResolvers<void>();
      const entered = Promise.withResolvers<AbortSignal>();
      const hang = async (signal: AbortSignal) => {
        entered.resolve(signal);
        await late;
      };
      const plugin: Plugin =
        hook === 'start'
          ? { name: 'slow', failOpen: true, hookMsMax: 50, start: hang }
          : { name: 'slow', failOpen: true, hookMsMax: 50, setup: (_app, signal) => hang(signal) };
      const host = new PluginHost({ plugins: [plugin], clock });
      const app = Fastify();
      await app.register(fastifyPlugin(async () => {}));
      app.register(host.plugin);
      const ready = app.ready();
      const signal = await entered.promise;
      await clock.advance(49);
      assert.equal(signal.aborted, false);
      await clock.advance(1);
      assert.equal(signal.aborted, true);
      await ready;
      assert.match(JSON.stringify(host.stats.errors), /"DEADLINE"/);
      assert.equal(clock.pending, 0);
      wake();
      await app.close();
    }
  });

  it('stops every plugin though others fail or hang in doing so', async () => {
    const clock = new VirtualClock();
    const log: string[] = [];
    const hanging = Promise.withResolvers<void>();
    const plugins: Plugin[] = [
      { name: 'a', stop: () => log.push('a') },
      {
        name: 'b',
        stop: () => {
          hanging.resolve();
          return new Promise(() => {});
        },
      },
      { name: 'c', stop: boom },
    ];
    const host = new PluginHost({ plugins, clock });
    const app = Fastify();
    await app.register(host.plugin);
    await app.ready();
    const closed = app.close();
    await hanging.promise;
    await clock.advance(5_000);
    await closed;
    assert.deepEqual(log, ['a']);
    assert.deepEqual(
      host.stats.errors.map(({ plugin, hook }) => `${plugin} ${hook}`),
      ['c stop', 'b stop'],
    );
  });

  it('refuses hooks that may take longer than Fastify waits', async () => {
    const host = new PluginHost({ plugins: [{ name: 'a' }], hookMsMax: 10_000 });
    const app = Fastify();
    await assert.rejects(async () => app.register(host.plugin), /hookMsMax: must be below/);
  });
});
