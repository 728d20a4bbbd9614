import { performance } from 'node:perf_hooks';
import { BoundedMap, type Clock, systemClock } from 'spillway';

/** One failure, as the operator sees it. */
export interface RecentError {
  /** Time of the last occurrence, in milliseconds since 1970. */
  readonly at: number;
  /** Identifier in the client's answer and in the log; undefined for deliberate failures. */
  readonly id: string | undefined;
  /** Method and pattern of the route, like `POST /user/:id`. */
  readonly route: string;
  readonly code: string;
  readonly status: number;
  readonly message: string;
  /** Stack of an unexpected failure. */
  readonly stack?: string | undefined;
  /** Occurrences: deliberate failures of one code and route share an entry. */
  readonly count: number;
}

const countMax = 200;
const messageLengthMax = 1_000;
const stackLengthMax = 4_000;

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

/** The last 200 failures of a server; the oldest goes first. */
export class RecentErrors {
  readonly #clock: Clock;
  readonly #errors = new BoundedMap<string, RecentError>({ countMax, first: 'oldest' });
  #total = 0;
  /** The entry that was counted last: a burst of refusals is counted in it, at the least cost. */
  #newest: Writable<RecentError> | undefined;

  constructor({ clock = systemClock }: { readonly clock?: Clock | undefined } = {}) {
    this.#clock = clock;
  }

  get stats(): { readonly total: number; readonly kept: number } {
    return { total: this.#total, kept: this.#errors.size };
  }

  /** Newest first. */
  list(): RecentError[] {
    return [...this.#errors].map(([, error]) => ({ ...error })).toReversed();
  }

  add(error: Omit<RecentError, 'at' | 'count'>): void {
    this.#total += 1;
    const { id, route, code, status } = error;
    const at = Math.round(performance.timeOrigin + this.#clock.now());
    const message = error.message.slice(0, messageLengthMax);
    const newest = this.#newest;
    if (newest?.code === code && newest.route === route && (id ?? newest.id) === undefined) {
      newest.count += 1;
      newest.at = at;
      newest.status = status;
      newest.message = message;
      return;
    }
    // A burst of refusals must not wash out the one failure that explains it.
    const key = id ?? `${code} ${route}`;
    const count = (this.#errors.get(key)?.count ?? 0) + 1;
    const stack = error.stack?.slice(0, stackLengthMax);
    this.#newest = { id, route, code, status, message, stack, at, count };
    this.#errors.set(key, this.#newest);
  }
}
