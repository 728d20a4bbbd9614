import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { systemClock } from 'spillway';
import { createServer, type ProcessFigures, type RouteStats } from 'spillway-http';

function hold(ms: number): void {
  const startedAt = systemClock.now();
  while (systemClock.now() - startedAt < ms);
}

const pause = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve));

describe('the domains of routes', () => {
  it('shows which routes hold the event loop, at their start or before they answer', async () => {
    await using server = await createServer({ loopMsMax: 300 });
    const { app } = server;
    app.get('/honest', async () => 'quick');
    app.get('/waiting', { config: { domain: 'thread' } }, async () => {
      await pause(400);
      return 'slept, and held nothing';
    });
    app.get('/start', () => {
      hold(400);
      return 'held at its start';
    });
    app.get('/end', async () => {
      await pause(1);
      hold(400);
      return 'held before it answered';
    });
    app.get('/thrown', async () => {
      hold(400);
      throw new Error('held and failed');
    });
    await server.start();
    for (const path of ['honest', 'waiting', 'start', 'end', 'thrown']) {
      for (let i = 0; i < 2; i += 1) await (await fetch(`${server.url}/${path}`)).text();
    }
    const { payload } = await server.operator.app.inject('/-/stats');
    const { routes, process: host } = JSON.parse(payload) as {
      readonly routes: RouteStats[];
      readonly process: ProcessFigures;
    };
    const { loopUtilisation, loopDelayMs } = host;
    const gets = routes.filter(({ path }) => !/^\/(-|_kit)\//.test(path));
    assert.deepEqual(
      gets.map(({ path, domain, broken, loopMs: { count } }) => [path, domain, broken, count]),
      [
        ['/honest', 'loop', false, 2],
        ['/waiting', 'thread', false, 2],
        ['/start', 'loop', true, 2],
        ['/end', 'loop', true, 2],
        ['/thrown', 'loop', true, 2],
      ],
    );
    assert.ok(gets.every(({ loopMs }) => loopMs.p50 <= loopMs.p99 && loopMs.p99 <= loopMs.max));
    assert.ok(loopUtilisation > 0 && loopUtilisation <= 1);
    assert.ok(loopDelayMs.max >= 300);
  });
});
