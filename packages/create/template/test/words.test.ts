import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { type FetchPage, Words } from '../src/words.ts';

const count = async (text: string): Promise<number> => text.split(' ').length;

/** Never answers, and ends when its signal aborts: until then it holds its permit. */
const hangs: FetchPage = (_name, signal) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

describe('the words of a page', () => {
  it('are counted, though the first attempt fails', async () => {
    const clock = new VirtualClock();
    let attempts = 0;
    const fetchPage: FetchPage = async () => {
      attempts += 1;
      return attempts === 1 ? { status: 503, text: '' } : { status: 200, text: 'so many words' };
    };
    const words = new Words({ fetchPage, count, clock });
    const counted = await clock.run(words.lane.run((signal) => words.of('page', signal)));
    assert.equal(counted, 3);
    assert.equal(attempts, 2);
    assert.equal(clock.pending, 0, 'no timer is left behind');
  });

  it('are asked for again when an attempt takes too long, until the deadline', async () => {
    const clock = new VirtualClock();
    const words = new Words({ fetchPage: hangs, count, clock });
    const counting = words.lane.run((signal) => words.of('page', signal));
    await assert.rejects(clock.run(counting), { code: 'DEADLINE' });
    assert.ok(clock.now() <= 2_000, `${clock.now()} ms`);
  });

  it('are refused at once when too many wait', async () => {
    const clock = new VirtualClock();
    const words = new Words({ fetchPage: hangs, count, clock });
    const asked = Array.from({ length: 300 }, () =>
      words.lane.run((signal) => words.of('page', signal)).catch((error) => error.code),
    );
    await clock.advance(0);
    assert.ok(words.lane.stats.refused.full > 0);
    await clock.advance(2_000);
    const codes = await Promise.all(asked);
    assert.ok(codes.includes('LANE_FULL'));
    assert.equal(words.lane.stats.inside, 0, 'nobody is left inside');
  });
});
