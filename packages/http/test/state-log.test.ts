import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Breaker, consecutiveFailures, Panel } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { createServer, Operator, Routes } from 'spillway-http';

describe('the log of a server', () => {
  it('has one line for each change of state, and none while nothing changes', async () => {
    const clock = new VirtualClock();
    const lines: Record<string, unknown>[] = [];
    const nothing = () => {};
    const log = {
      level: 'warn',
      silent: nothing,
      trace: nothing,
      debug: nothing,
      info: nothing,
      warn: (line: Record<string, unknown>) => lines.push(line),
      error: nothing,
      fatal: nothing,
      child: () => log,
    } as never;
    const panel = new Panel();
    const breaker = new Breaker({ rule: consecutiveFailures(1), clock });
    panel.watch('upstream', breaker);
    const database = { name: 'database', ready: true };
    await using server = await createServer({ log, clock, operator: { panel, ready: [database] } });
    await server.start();
    await assert.rejects(breaker.run(() => Promise.reject(new TypeError('fetch failed'))));
    await clock.advance(1_000);
    assert.deepEqual(lines, [{ part: 'upstream', field: 'state', from: 'closed', to: 'open' }]);
    database.ready = false;
    await clock.advance(1_000);
    database.ready = true;
    await clock.advance(2_000);
    const [, away, back] = lines;
    assert.deepEqual(away, { part: 'service', field: 'unready', from: [], to: ['database'] });
    assert.deepEqual(back, { part: 'service', field: 'unready', from: ['database'], to: [] });
    assert.equal(lines.length, 3);
  });

  it('goes on when a part that is asked whether it is ready throws, and warns', async () => {
    const clock = new VirtualClock();
    let isReady = () => true;
    const part = {
      name: 'database',
      get ready() {
        return isReady();
      },
    };
    const told: unknown[] = [];
    const operator = new Operator(
      { ready: [part] },
      {
        routes: new Routes(clock, 10),
        errors: { list: () => [] },
        clock,
        tell: (change) => told.push(change),
      },
    );
    await operator.start();
    const warned = once(process, 'warning');
    isReady = () => {
      throw new TypeError('no such part');
    };
    await clock.advance(1_000);
    assert.deepEqual((await warned).map(String), ['TypeError: no such part']);
    isReady = () => false;
    await clock.advance(1_000);
    assert.deepEqual(told, [{ part: 'service', field: 'unready', from: [], to: ['database'] }]);
    await operator.close();
    assert.equal(clock.pending, 0);
  });
});
