/** Part by which a proven size exceeds the number in flight. */
const headroom = 1.2;
/** Successes, at least, after which the size doubles; one failure cancels as many. */
const successesMin = 4;
/** Failures on the way to a goal after which the goal counts as too large. */
const failuresMax = 2;

/**
 * The way back after late work has cut a limit: the size doubles, step by step, up to the last size
 * that was proven, which is the goal.
 */
export class Recovery {
  /** Size to go back to; 0 when no recovery is under way. */
  goal = 0;
  /** Size of the last reading with hardly any queueing delay; 0 after late work. */
  #proven = 0;
  /** Size of the last step of this recovery that succeeded; 0 if none did. */
  #reached = 0;
  #failures = 0;
  /** Successes at the present size, less those that failures have cancelled. */
  #score = 0;
  /** Number of successes at the present size, and the sum of their latencies. */
  #successes = 0;
  #latencySumMs = 0;

  /** Notes a reading with hardly any queueing delay. */
  prove(size: number, inside: number): void {
    this.#proven = Math.min(size, Math.round(headroom * inside));
    if (this.goal > 0) return;
    this.#reached = 0;
    this.#failures = 0;
  }

  /** Begins a recovery after late work, or starts it again from a smaller size. */
  fail(): void {
    if (this.#reached > 0) this.#failures += 1;
    const isTooLarge = this.#failures >= failuresMax;
    this.goal = isTooLarge ? this.#reached : Math.max(this.goal, this.#proven);
    if (isTooLarge) this.#failures = 0;
    this.#proven = 0;
    this.#reached = 0;
    this.#beginStep();
  }

  /** Notes a queueing delay that made the size shrink: the second one halves the goal. */
  shrink(): void {
    if (this.goal === 0) return;
    this.#failures += 1;
    if (this.#failures < failuresMax) return;
    this.#failures = 0;
    this.goal /= 2;
  }

  /**
   * Counts a sample at this size, by its latency, or undefined for a failure. Gives the next size
   * once there were enough successes, with a mean latency of at most `latencyMsMax`.
   */
  count(latencyMs: number | undefined, size: number, latencyMsMax: number): number | undefined {
    const isSuccess = latencyMs !== undefined;
    this.#score = isSuccess ? this.#score + 1 : Math.max(0, this.#score - successesMin);
    this.#latencySumMs += latencyMs ?? 0;
    if (isSuccess) this.#successes += 1;
    if (this.#score < Math.max(successesMin, size)) return undefined;
    const meanMs = this.#latencySumMs / this.#successes;
    this.#beginStep();
    this.#reached = size;
    if (meanMs > latencyMsMax) return undefined;
    // Readings may have found a size above the goal meanwhile; it is kept.
    const next = Math.max(size, Math.min(this.goal, 2 * size));
    if (next >= this.goal) {
      this.#proven = this.goal;
      this.goal = 0;
    }
    return next;
  }

  #beginStep(): void {
    this.#score = 0;
    this.#latencySumMs = 0;
    this.#successes = 0;
  }

  /** Notes a size that was set from outside, and the largest one allowed. */
  resize(size: number, sizeMax: number): void {
    this.#proven = Math.min(this.#proven, sizeMax);
    // At the largest size there is nothing left to recover.
    this.goal = size >= sizeMax ? 0 : Math.min(this.goal, sizeMax);
  }
}
