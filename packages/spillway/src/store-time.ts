/** No clock gains or loses more against another: twice the 500 ppm that NTP may slew by. */
const driftMax = 0.001;

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
    const drift = Math.max(0, receivedAt - this.#at) * driftMax;
    const min = Math.max(this.#aheadMin - drift, now - receivedAt);
    const max = Math.min(this.#aheadMax + drift, now - sentAt);
    // Bounds that exclude each other mean that a clock has jumped: only the newest answer counts.
    this.#aheadMin = min <= max ? min : now - receivedAt;
    this.#aheadMax = min <= max ? max : now - sentAt;
    this.#at = receivedAt;
  }

  /** The moment here before which that moment of the store cannot have come. */
  earliest(storeMs: number): number {
    return storeMs - this.#aheadMax;
  }

  /** The moment here from which that moment of the store has come for sure. */
  latest(storeMs: number): number {
    return storeMs - this.#aheadMin;
  }
}
