// Slow: simulates hours of traffic.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane, type Random, SpillwayError, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** Good answers a second in each second, and the callers that the lane refused meanwhile. */
interface Served {
  readonly good: readonly number[];
  readonly refused: readonly number[];
}

/** Asks a lane for 80 seconds; a share of the calls, by second, is refused by the other side. */
async function serve(scene: {
  readonly seed: number;
  readonly perSecond: number;
  /** Calls that the other side works on at once; others wait there. */
  readonly places: number;
  /** Milliseconds of one call in the mean. @default 100 */
  readonly serviceMs?: number;
  readonly refusedShare: (second: number) => number;
}): Promise<Served> {
  const clock = new VirtualClock();
  const random = seededRandom(scene.seed);
  const { serviceMs = 100 } = scene;
  const bounds = { limit: 64, queueMax: 256, deadlineMs: 5_000 };
  const lane = new Lane({ name: 'calls', ...bounds, clock, random });
  const readyAt = new Array<number>(scene.places).fill(0);
  const good = new Array<number>(80).fill(0);
  const refused = new Array<number>(80).fill(0);
  const second = () => Math.floor(clock.now() / 1_000);
  const call = async () => {
    if (random() < scene.refusedShare(second())) throw new SpillwayError('LANE_FULL', 'no room');
    const place = readyAt.indexOf(Math.min(...readyAt));
    const endsAt = Math.max(readyAt[place] as number, clock.now()) + exponential(random, serviceMs);
    readyAt[place] = endsAt;
    await new Promise<void>((resolve) => void clock.after(endsAt - clock.now(), resolve));
  };
  const visit = async () => {
    let isBegun = false;
    const cameAt = second();
    try {
      await lane.run(() => {
        isBegun = true;
        return call();
      });
      good[second()] = (good[second()] ?? 0) + 1;
    } catch {
      if (!isBegun) refused[cameAt] = (refused[cameAt] ?? 0) + 1;
    }
  };
  while (clock.now() < 80_000) {
    void visit();
    await clock.advance(exponential(random, 1_000 / scene.perSecond));
  }
  return { good, refused };
}

function exponential(random: Random, mean: number): number {
  return -Math.log(1 - random()) * mean;
}

function mean(counts: readonly number[], from: number, to: number): number {
  return counts.slice(from, to).reduce((sum, count) => sum + count, 0) / (to - from);
}

describe('a lane whose other side refuses', () => {
  for (const share of [0.1, 0.3, 0.7]) {
    it(`refuses nobody itself for ${share} that are refused whatever the load`, async () => {
      for (const seed of [1, 2, 3]) {
        const refusedShare = (second: number) => (second < 20 ? 0 : share);
        const { good, refused } = await serve({ seed, perSecond: 50, places: 64, refusedShare });
        const perSecond = mean(good, 30, 80) / (1 - share);
        assert.ok(perSecond > 45, `${perSecond} of 50 a second, seed ${seed}`);
        assert.ok(mean(refused, 30, 80) < 2, `${mean(refused, 30, 80)} a second, seed ${seed}`);
      }
    });
  }

  it('keeps the others busy though a tenth is refused whatever the load', async () => {
    const perSeed: number[] = [];
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const refusedShare = (second: number) => (second < 20 ? 0 : 0.1);
      const { good } = await serve({ seed, perSecond: 150, places: 10, refusedShare });
      perSeed.push(mean(good, 20, 80));
    }
    const perSecond = mean(perSeed, 0, perSeed.length);
    assert.ok(perSecond > 85, `${perSecond} of 100 a second: ${perSeed}`);
  });

  it('is back at once when a time is over in which all were refused', async () => {
    for (const seed of [1, 2, 3]) {
      const refusedShare = (second: number) => (second < 20 || second >= 50 ? 0 : 1);
      const service = { places: 10, serviceMs: 400 };
      const { good } = await serve({ seed, perSecond: 75, ...service, refusedShare });
      const perSecond = mean(good, 53, 80);
      assert.ok(perSecond > 20, `${perSecond} of 25 a second, seed ${seed}`);
    }
  });
});

describe('a lane some of whose calls hang', () => {
  for (const [deadlineMs, patienceMs] of [
    [2_000, Infinity],
    [20_000, 1_000],
  ] as const) {
    it(`serves the others: deadline ${deadlineMs} ms, patience ${patienceMs} ms`, async () => {
      for (const share of [0.3, 0.5]) {
        for (const seed of [31, 32, 33]) {
          const served = await servedBesideHanging({ share, seed, deadlineMs, patienceMs });
          assert.ok(served > 0.75, `${served} of the others, ${share} hang, seed ${seed}`);
        }
      }
    });
  }
});

/** Share of the calls that do not hang which are served, 20 to 60 seconds after others began to. */
async function servedBesideHanging(scene: {
  readonly share: number;
  readonly seed: number;
  readonly deadlineMs: number;
  readonly patienceMs: number;
}): Promise<number> {
  const clock = new VirtualClock();
  const random = seededRandom(scene.seed);
  const { share, deadlineMs, patienceMs } = scene;
  const lane = new Lane({ name: 'calls', limit: 64, queueMax: 256, deadlineMs, clock, random });
  let others = 0;
  let served = 0;
  const hang = (signal: AbortSignal) => {
    return new Promise<void>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  };
  const visit = async () => {
    const client = new AbortController();
    using _patience = clock.after(patienceMs, () => client.abort());
    const isOther = clock.now() < 20_000 || random() >= share;
    const counts = isOther && clock.now() >= 40_000;
    if (counts) others += 1;
    try {
      await lane.run(
        (signal) =>
          isOther ? new Promise<void>((end) => void clock.after(100, end)) : hang(signal),
        { signal: client.signal },
      );
      if (counts) served += 1;
    } catch {}
  };
  while (clock.now() < 80_000) {
    void visit();
    await clock.advance(exponential(random, 50));
  }
  return served / others;
}
