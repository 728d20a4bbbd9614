import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SpillwayError, seededRandom } from 'spillway';
import { errorCodes } from 'spillway/internal';
import { explore } from 'spillway/testing';

describe('SpillwayError', () => {
  it('carries what a server needs to answer with', () => {
    const cause = new Error('disk');
    const error = new SpillwayError('LANE_FULL', 'no room', { retryAfterMs: 1_200, cause });
    assert.ok(error instanceof Error);
    assert.equal(error.code, 'LANE_FULL');
    assert.equal(error.status, 503);
    assert.equal(error.retryable, true);
    assert.equal(error.cause, cause);
    assert.deepEqual(error.headers, { 'retry-after': '2' });
  });

  it('knows the errors of another copy of the package, but a subclass only its own', async () => {
    const copy = await import(new URL('../src/base/errors.ts?copy', import.meta.url).href);
    const foreign = new copy.SpillwayError('LANE_FULL', 'no room');
    assert.notEqual(copy.SpillwayError, SpillwayError);
    assert.ok(foreign instanceof SpillwayError);
    class Own extends SpillwayError {}
    assert.ok(!(foreign instanceof Own));
    assert.ok(new Own('LANE_FULL', 'no room') instanceof Own);
    for (const other of [new Error('no room'), null, undefined, 5, {}]) {
      assert.ok(!((other as unknown) instanceof SpillwayError));
    }
  });

  it('has its message and its fields as JSON', () => {
    const error = new SpillwayError('LANE_FULL', 'no room', { retryAfterMs: 1_200 });
    const { name, code, message, retryAfterMs } = JSON.parse(JSON.stringify({ error })).error;
    assert.deepEqual([name, code, message], ['SpillwayError', 'LANE_FULL', 'no room']);
    assert.equal(retryAfterMs, 1_200);
  });

  it('never tells a client to come back in zero seconds', () => {
    const error = new SpillwayError('LANE_FULL', 'no room', { retryAfterMs: 0.2 });
    assert.deepEqual(error.headers, { 'retry-after': '1' });
    assert.deepEqual(new SpillwayError('DEADLINE', 'late').headers, {});
  });

  it('takes faults of your own', () => {
    const fault = { code: 'TEAPOT', status: 418, retryable: false };
    const { code, status, retryable } = new SpillwayError(fault, 'short and stout');
    assert.deepEqual({ code, status, retryable }, fault);
  });

  it('answers every code with a status that says who is at fault', () => {
    for (const code of errorCodes) {
      const { status } = new SpillwayError(code, 'any');
      assert.ok([409, 429, 500, 502, 503, 504, 507].includes(status), `${code} has ${status}`);
    }
  });

  it('has a stack unless it is a plain refusal, and leaves those of others alone', () => {
    const stackOf = (error: Error) => (error.stack ?? '').split('\n    at ').length - 1;
    assert.equal(stackOf(new SpillwayError('LANE_FULL', 'full')), 0);
    assert.ok(stackOf(new SpillwayError('DATABASE_CORRUPT', 'broken')) > 0);
    assert.ok(stackOf(new SpillwayError('DATABASE_LOST', 'lost', { cause: 'cut' })) > 0);
    assert.ok(stackOf(new Error('of somebody else')) > 0);
  });
});

describe('seededRandom', () => {
  it('gives the same numbers for the same seed, and others for another', () => {
    const draw = (seed: number) => {
      const random = seededRandom(seed);
      return Array.from({ length: 5 }, random);
    };
    assert.deepEqual(draw(1), draw(1));
    assert.notDeepEqual(draw(1), draw(2));
  });

  it('spreads evenly, also over the first numbers of neighbouring seeds', () => {
    const counts = new Array<number>(10).fill(0);
    for (let seed = 0; seed < 10_000; seed += 1) {
      const bin = Math.floor(seededRandom(seed)() * 10);
      counts[bin] = (counts[bin] ?? 0) + 1;
    }
    for (const count of counts) assert.ok(count > 850 && count < 1_150, `${counts}`);
  });
});

describe('explore', () => {
  it('names the seed of the schedule that failed, and keeps the cause', async () => {
    const seen: number[] = [];
    const failing = explore(9, async (_, seed) => {
      seen.push(seed);
      assert.notEqual(seed, 4);
    });
    await assert.rejects(failing, /^Error: seed 4: .*SPILLWAY_SEED=4/s);
    assert.deepEqual(seen, [1, 2, 3, 4]);
  });
});
