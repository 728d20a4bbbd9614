// A day of waiting, tested in milliseconds: every part that takes a Clock runs on a virtual one.
import { Lane } from 'spillway';
import { VirtualClock } from 'spillway/testing';

const clock = new VirtualClock();
const lane = new Lane({ name: 'nightly', limit: 1, queueMax: 1, deadlineMs: 3_600_000, clock });

using _stuck = await lane.enter();
const waiting = lane.run(async () => 'done').catch((error) => error.code);
await clock.advance(24 * 3_600_000);
console.log(`a day later: ${await waiting}`);
console.log(`timers left behind: ${clock.pending}`);
