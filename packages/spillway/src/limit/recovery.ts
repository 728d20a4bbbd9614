/** Size over what was in use, for a size that is known to be right. */
const provenShare = 1.2;
/** Ends in time, at least, after which the size doubles; one late end undoes as many. */
const inTimeMin = 4;
/** Failures on the way back to a size by which it is known to be too large. */
const failuresMax = 2;

/** The way back to the last right size of a limit, after late work has cut it. */
export class Recovery {
  /** Size to go back to; 0 if there is none. */
  goal = 0;
  /** Size that the last reading without much of a queue has used, until work is late. */
  #proven = 0;
  /** Size at which enough work ended in time on the way, until it fails again. */
  #borne = 0;
  #failures = 0;
  /** Ends in time at the size of now, less those that late ones undid. */
  #inTime = 0;
  /** Milliseconds that those took in all, and how many they were. */
  #tookMs = 0;
  #ends = 0;

  /** Notes that there is hardly a queue at this size, of which so much is in use. */
  prove(size: number, inside: number): void {
    this.#proven = Math.min(size, Math.round(provenShare * inside));
    if (this.goal > 0) return;
    this.#borne = 0;
    this.#failures = 0;
  }

  /** Notes that work is late. A goal that failed twice on the way there is too large by now. */
  fail(): void {
    if (this.#borne > 0) this.#failures += 1;
    const isWrong = this.#failures >= failuresMax;
    this.goal = isWrong ? this.#borne : Math.max(this.goal, this.#proven);
    if (isWrong) this.#failures = 0;
    this.#proven = 0;
    this.#borne = 0;
    this.#begin();
  }

  /** Notes that a reading found a queue on the way back: twice, and the goal is too large. */
  shrink(): void {
    if (this.goal === 0) return;
    this.#failures += 1;
    if (this.#failures < failuresMax) return;
    this.#failures = 0;
    this.goal /= 2;
  }

  /**
   * Counts an end at this size; gives the next size once enough work ended in time, and so soon
   * that twice as much would, too.
   */
  count(tookMs: number | undefined, size: number, tookMsMost: number): number | undefined {
    const isGood = tookMs !== undefined;
    this.#inTime = isGood ? this.#inTime + 1 : Math.max(0, this.#inTime - inTimeMin);
    this.#tookMs += tookMs ?? 0;
    if (isGood) this.#ends += 1;
    if (this.#inTime < Math.max(inTimeMin, size)) return undefined;
    const meanMs = this.#tookMs / this.#ends;
    this.#begin();
    this.#borne = size;
    if (meanMs > tookMsMost) return undefined;
    // Readings may have found a larger size meanwhile: that is nothing to go back from.
    const next = Math.max(size, Math.min(this.goal, 2 * size));
    if (next >= this.goal) {
      this.#proven = this.goal;
      this.goal = 0;
    }
    return next;
  }

  #begin(): void {
    this.#inTime = 0;
    this.#tookMs = 0;
    this.#ends = 0;
  }

  /** Notes that the size became another, of so many at most. */
  resize(size: number, sizeMax: number): void {
    this.#proven = Math.min(this.#proven, sizeMax);
    // There is nothing to go back to once the size is as large as it may be.
    this.goal = size >= sizeMax ? 0 : Math.min(this.goal, sizeMax);
  }
}
