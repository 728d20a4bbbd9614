/** No clock gains or loses more against another: twice the 500 ppm that NTP may slew by. */
const driftMax = 0.001;
/** A store may tell the time in whole milliseconds, cut off: SQLite does. */
const grainMs = 1;

/**
 * What is known of a store's clock from here: its time lay between the sending of each question
 * and the coming of its answer. Both bounds are safe, and the quickest answer says most.
 */
export class StoreTime {
  #aheadMin = -Infinity;
  #aheadMax = Infinity;
  #at = 0;

  note(seen: { readonly sentAt: number; readonly receivedAt: number; readonly now: number }): void {
    const { sentAt, receivedAt, now } = seen;
    // The clock here went back meanwhile: this tells nothing.
    if (receivedAt < sentAt) return;
    const drift = Math.abs(receivedAt - this.#at) * driftMax;
    const newest = { min: now - receivedAt, max: now + grainMs - sentAt };
    const min = Math.max(this.#aheadMin - drift, newest.min);
    const max = Math.min(this.#aheadMax + drift, newest.max);
    // Bounds that exclude each other mean that a clock has jumped: only the newest answer counts.
    this.#aheadMin = min <= max ? min : newest.min;
    this.#aheadMax = min <= max ? max : newest.max;
    this.#at = receivedAt;
  }

  /** The store's time at that moment here, at the least. */
  min(at: number): number {
    return at + this.#aheadMin - Math.abs(at - this.#at) * driftMax;
  }

  /** The store's time at that moment here, at the most. */
  max(at: number): number {
    return at + this.#aheadMax + Math.abs(at - this.#at) * driftMax;
  }

  /** By how much the two may differ. */
  unsureMs(at: number): number {
    return this.max(at) - this.min(at);
  }

  /** The moment here, from the last answer on, from which that moment of the store has come. */
  latest(storeMs: number): number {
    const sinceMs = storeMs - this.#aheadMin - this.#at;
    return this.#at + Math.max(0, sinceMs / (1 - driftMax));
  }
}
