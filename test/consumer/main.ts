import assert from 'node:assert/strict';
import { deadline, type ErrorCode, SpillwayError, systemClock } from 'spillway';
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
console.log('the packed package works');
