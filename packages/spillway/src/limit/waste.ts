/** Weight of one sample in the moving average. */
const sampleWeight = 0.15;
/** Wasted share from which on the downstream counts as stuck. */
const stuckShare = 0.98;
/** Wasted share that is assumed after the first success of a stuck downstream. */
const shareAfterStuck = 0.8;

/** The moving average of the share of work that is wasted, since it did not end in time. */
export class Waste {
  #share = 0;

  /** True while nothing ends in time. */
  get isStuck(): boolean {
    return this.#share >= stuckShare;
  }

  /** Counts one sample; true if the downstream becomes stuck with it. */
  count(isGood: boolean): boolean {
    const wasStuck = this.isStuck;
    this.#share += ((isGood ? 0 : 1) - this.#share) * sampleWeight;
    // The first success may be chance, so a few more failures make it stuck again.
    if (wasStuck && !this.isStuck) this.#share = shareAfterStuck;
    return !wasStuck && this.isStuck;
  }
}
