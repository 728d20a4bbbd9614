import type { Sample } from './limit.ts';

/** Multiplicative decrease: the part of the size that is left after a refusal. */
const decrease = 0.9;
/** Samples without a refusal that end the shrinking, and in mean distances of refusals. */
const calmSamples = 60;
const calmGaps = 5;
/** Part of the original size, at most, at which the shares of refusals are compared. */
const comparedShare = 0.5;
/** Share of the earlier refusals, at most, that is left where a smaller size helps. */
const helpedShare = 0.5;
/** Refusals that make an estimate of their share, and samples after which fewer will do. */
const dropsMin = 12;
const samplesMax = 150;
/** Refusals to be expected by now, if there was none at all, that make an estimate as well. */
const expectedMin = 5;
/** Refusals that update the estimate of the usual share. */
const updateMin = 24;
/** Refusals are more than before above 1.5 times the earlier share, and 2 % of all besides. */
const riseMin = 1.5;
const riseShareMin = 0.02;
/** Weight of one estimate in the usual share. */
const usualWeight = 0.25;

/**
 * Reacts to refusals by the downstream (429, 503, 504).
 *
 * - Idle: no refusals.
 * - Shrinking: each refusal cuts the size to 0.9, until the refusals end, or the size is half of
 *   the original one, or less where many are refused.
 * - Comparing: the size is held until the share of refusals is known there. If it has halved, the
 *   refusals are by load, and the smaller size stays. If not, they have another cause, such as a
 *   replica that is down or a client over its quota, and the original size comes back.
 * - Tolerating: that usual share of refusals does not count, until it rises.
 */
export class Drops {
  #samples = 0;
  #drops = 0;
  /** Number of samples at the last refusal. */
  #lastDropAt = 0;
  /** Moment of the last cut: work begun before was sent at a larger size. */
  #cutAt = -Infinity;
  /** Size at the first refusal; undefined unless shrinking or comparing. */
  #originalSize: number | undefined;
  /** Share of refusals while shrinking; undefined unless comparing. */
  #shareBefore: number | undefined;
  /** Share of refusals at any size; 0 unless tolerating. */
  #usualShare = 0;

  /** True while the size is held, so that refusals can be compared. */
  get isComparing(): boolean {
    return this.#shareBefore !== undefined;
  }

  /** Counts a sample at this size; gives the next size if it has to change. */
  count(sample: Sample, size: number, serviceMs: number): number | undefined {
    const { outcome, startedAt, endedAt } = sample;
    const isDrop = outcome === 'overloaded';
    const isIdle = this.#originalSize === undefined && this.#usualShare === 0;
    // Just after a cut, work begun before it still fills the downstream.
    const isOld = this.isComparing && startedAt < this.#cutAt + serviceMs;
    if ((isIdle && !isDrop) || isOld) return undefined;
    this.#samples += 1;
    if (isDrop) {
      this.#drops += 1;
      this.#lastDropAt = this.#samples;
    }
    if (this.#shareBefore !== undefined) return this.#compare(this.#shareBefore, size);
    if (this.#usualShare > 0) this.#tolerate();
    else if (isDrop && startedAt >= this.#cutAt) return this.#shrink(size, endedAt);
    else if (this.#isOver()) this.#reset();
    return undefined;
  }

  /** True if refusals have become so rare that nothing has to be compared. */
  #isOver(): boolean {
    const calm = Math.max(calmSamples, (calmGaps * this.#samples) / this.#drops);
    return this.#samples - this.#lastDropAt >= calm || this.#samples >= 2 * samplesMax;
  }

  /** Cuts the size a little, or holds it if it is small enough to compare. */
  #shrink(size: number, now: number): number | undefined {
    this.#originalSize ??= size;
    const share = this.#drops / this.#samples;
    // A downstream that refuses much may bear far less than half.
    const part = Math.min(comparedShare, (1 - share) ** 2);
    if (size > Math.max(1, this.#originalSize * part)) {
      this.#cutAt = now;
      return Math.max(1, size * decrease);
    }
    if (this.#drops < dropsMin) return undefined;
    this.#cutAt = now;
    this.#shareBefore = share;
    this.#samples = 0;
    this.#drops = 0;
    return size;
  }

  /** Gives the original size back if the smaller one is refused as much. */
  #compare(before: number, size: number): number | undefined {
    const enough = (this.#drops === 0 ? expectedMin : dropsMin) / before;
    const isKnown = this.#drops >= dropsMin || this.#samples >= Math.min(samplesMax, enough);
    if (!isKnown) return undefined;
    const share = this.#drops / this.#samples;
    if (isRise(share, before)) {
      // The downstream became worse meanwhile, so the comparison says nothing: shrink on.
      this.#shareBefore = undefined;
      return undefined;
    }
    const original = this.#originalSize ?? size;
    this.#reset();
    if (share <= helpedShare * before) return undefined;
    this.#usualShare = share;
    return original;
  }

  /** Follows the usual share, and forgets it when it rises or is as good as nothing. */
  #tolerate(): void {
    if (this.#drops < updateMin && this.#samples < 2 * samplesMax) return;
    const share = this.#drops / this.#samples;
    const usual = this.#usualShare + (share - this.#usualShare) * usualWeight;
    this.#usualShare = isRise(share, this.#usualShare) || usual < riseShareMin ? 0 : usual;
    this.#reset();
  }

  #reset(): void {
    this.#samples = 0;
    this.#drops = 0;
    this.#lastDropAt = 0;
    this.#originalSize = undefined;
    this.#shareBefore = undefined;
  }
}

function isRise(share: number, before: number): boolean {
  return share > riseShareMin + riseMin * before;
}
