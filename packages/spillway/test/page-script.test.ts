import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { map, outbound, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** A site that lets 50 calls in any second through, and answers the others with 429. */
function site(clock: VirtualClock, strayEvery = Infinity) {
  const random = seededRandom(7);
  const recent: number[] = [];
  let asked = 0;
  let refused = 0;
  const get = async (page: number): Promise<{ status: number; page: number }> => {
    const now = clock.now();
    asked += 1;
    while (recent[0] !== undefined && recent[0] <= now - 1_000) recent.shift();
    const isRefused = recent.length >= 50 || asked % strayEvery === 0;
    if (isRefused) refused += 1;
    else recent.push(now);
    await new Promise<void>((resolve) => clock.after(100 + 200 * random(), resolve));
    return { status: isRefused ? 429 : 200, page };
  };
  return { get, refused: () => refused };
}

describe('a script that fetches pages', () => {
  for (const { name, strayEvery, secondsMax } of [
    { name: 'has 5,000 within a tenth of the ideal time', strayEvery: Infinity, secondsMax: 112 },
    { name: 'loses little by stray 429s', strayEvery: 1_000, secondsMax: 118 },
  ]) {
    it(name, async () => {
      const clock = new VirtualClock();
      const { get, refused } = site(clock, strayEvery);
      // 50 in any second are 49 and a burst of 1.
      const rate = { ratePerSecond: 49, burst: 1, queueMax: 100 };
      const pages = outbound({ rate, clock });
      const numbers = Array.from({ length: 5_000 }, (_, index) => index);
      const script = map(
        numbers,
        async (page, signal) => (await pages.run(() => get(page), { signal })).page,
        { limit: 30 },
      );
      assert.deepEqual(await clock.run(script), numbers);
      assert.ok(clock.now() <= secondsMax * 1_000, `${clock.now() / 1_000} s`);
      assert.ok(refused() <= 6, `${refused()} times 429`);
    });
  }
});
