/** Weight of one end in the mean share of wasted work. */
const weight = 0.15;
/** Share of wasted work from which on nothing ends in time. */
const most = 0.98;
/** Share that is reckoned with after one has ended in time again. */
const afterStuck = 0.8;

/** The share of the last work that did not end in time. */
export class Waste {
  #share = 0;

  /** True while nothing ends in time. */
  get isStuck(): boolean {
    return this.#share >= most;
  }

  /** Counts one end; true if nothing ends in time from now on. */
  count(isGood: boolean): boolean {
    const wasStuck = this.isStuck;
    this.#share += ((isGood ? 0 : 1) - this.#share) * weight;
    // One that ended in time may be chance: it takes fewer to be stuck again.
    if (wasStuck && !this.isStuck) this.#share = afterStuck;
    return !wasStuck && this.isStuck;
  }
}
