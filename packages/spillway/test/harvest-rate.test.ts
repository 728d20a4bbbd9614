import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { play } from './simulations/play.ts';

interface Played {
  readonly uses: Readonly<
    Record<
      string,
      {
        readonly share: number;
        readonly soon: number;
        readonly throttled: number;
        readonly windowMax: number;
      }
    >
  >;
  readonly slowed: { readonly share: number };
  readonly fullWindow: { readonly share: number; readonly windowMax: number };
  readonly besideSlow: { readonly quick: number; readonly slow: number };
  readonly drifting: readonly number[];
  readonly fullServer: { readonly share: number; readonly inFlightMax: number };
}

describe('Harvest, with nothing tuned', () => {
  let played: Played;

  before(async () => {
    played = (await play('harvest-rate')) as unknown as Played;
  });

  it('uses at least 99 % of the rate, at 50 ms, 500 ms and 3 s with long tails', () => {
    const uses = Object.entries(played.uses);
    assert.equal(uses.length, 18);
    for (const [name, { share }] of uses) assert.ok(share >= 0.99, `${name}: ${share}`);
  });

  it('does so within five seconds where a few dozen in flight are enough', () => {
    const uses = Object.entries(played.uses).filter(([name]) => name.includes(' 10/s'));
    assert.equal(uses.length, 12);
    for (const [name, { soon }] of uses) assert.ok(soon >= 0.99, `${name}: ${soon}`);
  });

  it('does so again a minute after answers have become sixty times as slow', () => {
    const { share } = played.slowed;
    assert.ok(share >= 0.99, `${share}`);
  });

  it('causes no 429 at a server that counts in sliding windows', () => {
    for (const [name, { throttled }] of Object.entries(played.uses))
      assert.equal(throttled, 0, name);
  });

  it('holds no more pages than its window allows', () => {
    for (const [name, { windowMax }] of Object.entries(played.uses)) {
      assert.ok(windowMax > 0 && windowMax <= 1_000, `${name}: ${windowMax}`);
    }
  });

  it('makes a late fetch again when its window is full of what came after it', () => {
    // Without that it is 0.6: at 60 a second the window is full after 17 s.
    const { share, windowMax } = played.fullWindow;
    assert.ok(share > 0.8 && windowMax === 1_000, `${share} with ${windowMax} pages`);
  });

  it('gives the rate that a hanging source cannot use to the others', () => {
    const { quick, slow } = played.besideSlow;
    assert.ok(quick > 10 && 3 * quick + slow > 39.5, `${quick} a second each, and ${slow}`);
  });

  it('keeps using the rate while latency changes by itself up to fourfold', () => {
    // A limit that takes longer latency for a queue has 0.4 to 0.7 in its worst minute.
    assert.equal(played.drifting.length, 4);
    for (const share of played.drifting) assert.ok(share > 0.8, `${played.drifting}`);
  });

  it('does not flood a server that is full before the rate is used', () => {
    const { share, inFlightMax } = played.fullServer;
    assert.ok(
      share > 0.95 && inFlightMax <= 20,
      `${share} of what it can do, ${inFlightMax} there`,
    );
  });
});
