import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { VirtualClock } from 'spillway/testing';
import { createServer, failOpen } from 'spillway-http';
import { ask, portOf } from './ask.ts';

type Plugin = Parameters<typeof failOpen>[1];

async function open(...plugins: readonly Plugin[]) {
  const app = Fastify();
  for (const [at, plugin] of plugins.entries()) app.register(failOpen(`p${at}`, plugin));
  app.get('/ok', async () => 'ok');
  await app.listen({ port: 0, host: '127.0.0.1' });
  const base = `http://127.0.0.1:${portOf(app)}`;
  return { app, base, [Symbol.asyncDispose]: () => app.close() };
}

describe('failOpen', () => {
  it('goes on without a plugin that fails, none of whose routes can be reached', async () => {
    const half = (app: FastifyInstance) => {
      app.get('/half', async () => 'half');
      app.register((inner, _options, done) => {
        inner.get('/deep', async () => 'deep');
        done();
      });
      throw new Error('boom');
    };
    await using server = await open(half, async (app: FastifyInstance) => {
      app.get('/other', async () => 'other');
    });
    for (const path of ['half', 'deep']) {
      const answer = await ask(`${server.base}/${path}`);
      assert.equal(answer.status, 503, path);
      assert.equal(JSON.parse(answer.text).code, 'PLUGIN_FAILED');
    }
    assert.equal((await ask(`${server.base}/ok`)).text, 'ok');
    assert.equal((await ask(`${server.base}/other`)).text, 'other');
  });

  it('tells the operator of a server which plugin failed, and why', async () => {
    await using server = await createServer();
    await server.app.register(
      failOpen('extra', async (app: FastifyInstance) => {
        app.get('/extra', async () => 'extra');
        throw new Error('no such host');
      }),
    );
    await server.start();
    const answer = await ask(`${server.url}/extra`);
    assert.equal(answer.status, 503);
    assert.doesNotMatch(answer.text, /no such host/);
    const [error] = server.app.recentErrors.list();
    assert.equal(error?.message, 'plugin "extra" failed: no such host');
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
    for (const [style, plugin] of Object.entries(inside)) {
      await using server = await open(plugin);
      assert.equal((await ask(`${server.base}/deep`)).status, 503, style);
      assert.equal((await ask(`${server.base}/ok`)).status, 200, style);
    }
  });

  it('lets plugins that a plugin registers work as ever', async () => {
    await using server = await open(async (app: FastifyInstance) => {
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
    });
    assert.equal((await ask(`${server.base}/under/given`)).text, '5');
  });

  it('waits no longer than the plugin may take', async () => {
    const clock = new VirtualClock();
    const entered = Promise.withResolvers<void>();
    const hang = async (app: FastifyInstance) => {
      app.get('/slow', async () => 'slow');
      entered.resolve();
      await new Promise(() => {});
    };
    const app = Fastify();
    app.register(failOpen('slow', hang, { deadlineMs: 50, clock }));
    const ready = app.ready();
    await entered.promise;
    await clock.advance(50);
    await ready;
    const answer = await app.inject('/slow');
    assert.equal(answer.statusCode, 503);
    assert.equal(clock.pending, 0);
    await app.close();
  });
});
