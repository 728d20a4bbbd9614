import type { Sample } from './limit.ts';

/** Part of the size that is left after a refusal. */
const cutShare = 0.9;
/** Ends without a refusal after which the size is borne, and in mean distances of refusals. */
const calmEnds = 60;
const calmGaps = 5;
/** Part of the first size, at most, at which it is known whether a smaller one helps. */
const provedShare = 0.5;
/** Share of the refusals before that is left, at most, where they were by load. */
const fewerShare = 0.5;
/** Refusals that tell their share, ends after which fewer will do, and how many may be missed. */
const dropsMin = 12;
const endsMost = 150;
const missedMin = 5;
const followMin = 24;
/** Share of refusals besides the usual one, and half as many again, from which on they count. */
const strayShare = 0.02;
const usualRise = 1.5;
const usualWeight = 0.25;

/**
 * The refusals of the other side (429, 503, 504), for each of which the size shrinks a little.
 * Those by load become fewer with it. Those that do not have another reason, such as a replica that
 * is down or a client over its quota: to shrink for them would only refuse calls that are borne.
 */
export class Drops {
  #ends = 0;
  #drops = 0;
  #lastAt = 0;
  /** Moment of the last cut: what began before was sent at the old size. */
  #cutAt = -Infinity;
  /** Size at the first refusal, until the size is borne. */
  #first: number | undefined;
  /** Share of refusals on the way, once the size is held to compare. */
  #before: number | undefined;
  /** Share of refusals that come whatever the size; 0 while that is not known. */
  #usual = 0;

  /** True while the size is held, to be compared with larger ones. */
  get isTrying(): boolean {
    return this.#before !== undefined;
  }

  /** Counts an end at this size; gives the next size, if there is one. */
  count({ outcome, startedAt, endedAt }: Sample, size: number, workMs: number): number | undefined {
    const isDrop = outcome === 'overloaded';
    const isIdle = this.#first === undefined && this.#usual === 0;
    // After a change of size, work that was begun before still fills the other side.
    const isOld = this.#before !== undefined && startedAt < this.#cutAt + workMs;
    if ((isIdle && !isDrop) || isOld) return undefined;
    this.#ends += 1;
    if (isDrop) {
      this.#drops += 1;
      this.#lastAt = this.#ends;
    }
    if (this.#before !== undefined) return this.#judge(this.#before, size);
    if (this.#usual > 0) this.#follow();
    else if (isDrop && startedAt >= this.#cutAt) return this.#cut(size, endedAt);
    else if (this.#isBorne()) this.#reset();
    return undefined;
  }

  /** True if refusals are so rare that nothing has to be compared. */
  #isBorne(): boolean {
    const calm = Math.max(calmEnds, (calmGaps * this.#ends) / this.#drops);
    return this.#ends - this.#lastAt >= calm || this.#ends >= 2 * endsMost;
  }

  /** Shrinks a little, or holds the size if it is small enough to be compared. */
  #cut(size: number, now: number): number | undefined {
    this.#first ??= size;
    const share = this.#drops / this.#ends;
    // Whoever refuses much may bear far less.
    const part = Math.min(provedShare, (1 - share) ** 2);
    const isFar = size <= Math.max(1, this.#first * part);
    if (!isFar) {
      this.#cutAt = now;
      return Math.max(1, size * cutShare);
    }
    if (this.#drops < dropsMin) return undefined;
    this.#cutAt = now;
    this.#before = share;
    this.#ends = 0;
    this.#drops = 0;
    return size;
  }

  /** Decides whether a smaller size was refused less; goes back to the first one if not. */
  #judge(before: number, size: number): number | undefined {
    const most = (this.#drops === 0 ? missedMin : dropsMin) / before;
    if (this.#drops < dropsMin && this.#ends < Math.min(endsMost, most)) return undefined;
    const share = this.#drops / this.#ends;
    if (share > strayShare + usualRise * before) {
      // More than before: the other side has become worse meanwhile, so that says nothing yet.
      this.#before = undefined;
      return undefined;
    }
    const first = this.#first ?? size;
    this.#reset();
    if (share <= fewerShare * before) return undefined;
    this.#usual = share;
    return first;
  }

  /** Follows the usual share, and hears when there are more. */
  #follow(): void {
    if (this.#drops < followMin && this.#ends < 2 * endsMost) return;
    const share = this.#drops / this.#ends;
    const isMore = share > strayShare + usualRise * this.#usual;
    const usual = this.#usual + (share - this.#usual) * usualWeight;
    this.#usual = isMore || usual < strayShare ? 0 : usual;
    this.#reset();
  }

  #reset(): void {
    this.#ends = 0;
    this.#drops = 0;
    this.#lastAt = 0;
    this.#first = undefined;
    this.#before = undefined;
  }
}
