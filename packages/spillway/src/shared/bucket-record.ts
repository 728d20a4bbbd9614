import {
  type BucketRule,
  freshSlots,
  give,
  hairMs,
  nextRun,
  rateAt,
  recoveryMs,
  type SlotRun,
  type SlotState,
  type Slowing,
  slotLifeMs,
  slowSlots,
} from '../outbound/slots.ts';
import { type SharedOptions, type Sighting, StoreLink } from './store-link.ts';
import { StoreTime } from './store-time.ts';

/**
 * Time after its last visit in which a process may use what it has, in milliseconds. A process that
 * halves the rate gives out nothing that could come together with what the others use until then.
 */
export const trustMs = 900;
const voidAfterMs = 1_000;

/** The wish of a visit. */
export interface SlotWish {
  readonly n: number;
  /** No slot is given out that can only be used for less than this, in milliseconds. */
  readonly restMs: number;
}

/** The answer to a visit, in the store's time. */
export interface SlotVisit {
  readonly run: SlotRun | undefined;
  readonly round: number;
  readonly ratePerSecond: number;
  /** Time of the question, by the clock here. */
  readonly sentAt: number;
}

/** The record of a bucket that all processes keep together, and the time it is kept in. */
export class BucketRecord {
  readonly time: StoreTime = new StoreTime();
  readonly link: StoreLink;
  readonly #rule: BucketRule;
  readonly #name: string;

  constructor(options: SharedOptions, rule: BucketRule) {
    this.link = new StoreLink(options);
    this.#rule = rule;
    this.#name = `bucket/${options.name}`;
  }

  /** Reserves the next slots, however far ahead; without a wish it only looks. */
  async visit(wish: () => SlotWish | undefined): Promise<SlotVisit> {
    return await this.#change((state, { now, sentAt }) => {
      const wanted = wish();
      let run: SlotRun | undefined;
      if (wanted !== undefined) {
        const oldest = now - slotLifeMs(this.#rule) + wanted.restMs;
        run = nextRun(this.#rule, state, wanted.n, oldest);
        give(this.#rule, state, run, now);
        state.next += hairMs;
      }
      const ratePerSecond = rateAt(this.#rule, state, now);
      return { value: { run, round: state.round, ratePerSecond, sentAt }, isChanged: !!run };
    });
  }

  /** Tells all processes of a 429. */
  async slow(retryAfterMs: number): Promise<Slowing> {
    return await this.#change((state, { now }) => {
      const { round, next } = state;
      const value = slowSlots(this.#rule, state, now, retryAfterMs);
      if (state.round !== round) {
        const pauseEndsAt = now + retryAfterMs;
        state.next = Math.max(pauseEndsAt, Math.min(next, now + voidAfterMs));
      }
      return { value, isChanged: value !== 'known' };
    });
  }

  async #change<T>(
    change: (state: SlotState, seen: Sighting) => { value: T; isChanged: boolean },
  ): Promise<T> {
    const { value, done } = await this.link.update([this.#name], (seen) => {
      this.time.note(seen);
      const [record] = seen.records;
      const known = structuredClone(record?.value as SlotState | undefined);
      const fresh = seen.now - slotLifeMs(this.#rule);
      const state = known ?? freshSlots(this.#rule, fresh, seen.now);
      const { value, isChanged } = change(state, seen);
      const ttlMs = this.#ttlMs(state, seen.now);
      const changed = { name: this.#name, ifVersion: record?.version ?? 0, value: state, ttlMs };
      return { value, changes: isChanged ? [changed] : undefined };
    });
    if (done !== undefined) this.time.note(done);
    return value;
  }

  /** Milliseconds until the state is as good as a fresh one. */
  #ttlMs(state: SlotState, now: number): number {
    const untilMs = Math.max(state.next - now, state.roundEndsAt - now, 0);
    const restMs = Math.max(untilMs, recoveryMs(state, now));
    return restMs + slotLifeMs(this.#rule) + voidAfterMs;
  }
}
