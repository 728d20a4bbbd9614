/** No clock gains or loses more against another: twice the 500 ppm that NTP may slew by. */
const driftMax = 0.001;
/** A store may tell the time in whole milliseconds, cut off: SQLite does. */
const grainMs = 1;

/** A moment that is only known to lie between two others. */
export interface Between {
  readonly earliest: number;
  readonly latest: number;
}

/**
 * Bounds of the store's time. The time in each answer lies between the local times at which the
 * call was sent and answered, so both bounds are safe, and the quickest answer says most.
 */
export class StoreTime {
  /** Lead of the store's clock over the one here. */
  #ahead: Between = { earliest: -Infinity, latest: Infinity };
  #notedAt = 0;

  note(seen: { readonly sentAt: number; readonly receivedAt: number; readonly now: number }): void {
    const { sentAt, receivedAt, now } = seen;
    // The local clock went back meanwhile: this answer tells nothing.
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

  /** The store's time at a local time. */
  at(here: number): Between {
    const { earliest, latest } = this.#aheadAt(here);
    return { earliest: here + earliest, latest: here + latest };
  }

  /** The width of these bounds, in milliseconds. */
  uncertaintyMs(here: number): number {
    const { earliest, latest } = this.at(here);
    return latest - earliest;
  }

  /** The first local time, from the last answer on, at which the store's time has surely come. */
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
