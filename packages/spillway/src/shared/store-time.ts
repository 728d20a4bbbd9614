/** No clock gains or loses more against another: twice the 500 ppm that NTP may slew by. */
const driftMax = 0.001;
/** A store may tell the time in whole milliseconds, cut off: SQLite does. */
const grainMs = 1;

/** A moment of which only is known that it lies between two others. */
export interface Between {
  readonly earliest: number;
  readonly latest: number;
}

/**
 * Bounds of a store's clock as seen from here: its time lay between the sending of each question
 * and the coming of its answer. Both bounds are safe, and the quickest answer says most.
 */
export class StoreTime {
  /** Lead of the store's clock over the one here. */
  #ahead: Between = { earliest: -Infinity, latest: Infinity };
  #notedAt = 0;

  note(seen: { readonly sentAt: number; readonly receivedAt: number; readonly now: number }): void {
    const { sentAt, receivedAt, now } = seen;
    // The clock here went back meanwhile: this tells nothing.
    if (receivedAt < sentAt) return;
    const newest = { earliest: now - receivedAt, latest: now + grainMs - sentAt };
    const known = this.#aheadAt(receivedAt);
    const both = {
      earliest: Math.max(known.earliest, newest.earliest),
      latest: Math.min(known.latest, newest.latest),
    };
    // Bounds that exclude each other mean that a clock has jumped: only the newest answer counts.
    this.#ahead = both.earliest <= both.latest ? both : newest;
    this.#notedAt = receivedAt;
  }

  /** The store's time at a moment here. */
  at(here: number): Between {
    const { earliest, latest } = this.#aheadAt(here);
    return { earliest: here + earliest, latest: here + latest };
  }

  /** The width of these bounds, in milliseconds. */
  unsureMs(here: number): number {
    const { earliest, latest } = this.at(here);
    return latest - earliest;
  }

  /** The first moment here, from the last answer on, at which the store's time has surely come. */
  arrival(storeMs: number): number {
    const sinceMs = storeMs - this.#ahead.earliest - this.#notedAt;
    return this.#notedAt + Math.max(0, sinceMs / (1 - driftMax));
  }

  #aheadAt(here: number): Between {
    const driftMs = Math.abs(here - this.#notedAt) * driftMax;
    const { earliest, latest } = this.#ahead;
    return { earliest: earliest - driftMs, latest: latest + driftMs };
  }
}
