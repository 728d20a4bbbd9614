import assert from 'node:assert/strict';
import { deadline, type ErrorCode, Pool, SpillwayError, systemClock } from 'spillway';
import { VirtualClock } from 'spillway/testing';

const clock = new VirtualClock();
using limit = deadline(clock, 1_000);
await clock.advance(1_000);
const code: ErrorCode = 'DEADLINE';
assert.ok(limit.signal.reason instanceof SpillwayError);
assert.equal(limit.signal.reason.code, code);
// @ts-expect-error: the types travel with the package, so a misspelled code is found.
assert.throws(() => new SpillwayError('DEADLINES', 'no such code'));
assert.ok(systemClock.now() > 0);

const module = new URL('./worker.ts', import.meta.url);
const settings = { module, workers: 1, queueMax: 1, deadlineMs: 10_000 };
await using pool = await Pool.open<typeof import('./worker.ts')>(settings);
const doubled: number = await pool.run('double', 21);
assert.equal(doubled, 42);
// @ts-expect-error: and so does the type of a handler's input.
await pool.run('double', 'twenty-one');
console.log('the packed package works');
