import { performance } from 'node:perf_hooks';
import { type Clock, systemClock } from 'spillway';
import { checkInteger } from 'spillway/internal';

export interface RecentErrorsOptions {
  /** Failures that are kept; the oldest goes first. An integer from 1. @default 200 */
  readonly errorsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

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

/** Characters of a message that are kept. */
const messageLengthMax = 1_000;
const stackLengthMax = 4_000;

/** The last failures of a server, in bounded memory. */
export class RecentErrors {
  readonly #errorsMax: number;
  readonly #clock: Clock;
  /** Failures in the order of their last occurrence, the oldest first. */
  readonly #errors = new Map<string, RecentError>();
  #total = 0;

  constructor(options: RecentErrorsOptions = {}) {
    const { errorsMax = 200, clock = systemClock } = options;
    checkInteger('errorsMax', errorsMax, 1);
    this.#errorsMax = errorsMax;
    this.#clock = clock;
  }

  get stats(): { readonly total: number; readonly kept: number } {
    return { total: this.#total, kept: this.#errors.size };
  }

  /** Newest first. */
  list(): RecentError[] {
    return [...this.#errors.values()].toReversed();
  }

  add(error: Omit<RecentError, 'at' | 'count'>): void {
    this.#total += 1;
    // A burst of refusals must not wash out the one failure that explains it.
    const key = error.id ?? `${error.code} ${error.route}`;
    const count = (this.#errors.get(key)?.count ?? 0) + 1;
    const at = Math.round(performance.timeOrigin + this.#clock.now());
    this.#errors.delete(key);
    const message = error.message.slice(0, messageLengthMax);
    const stack = error.stack?.slice(0, stackLengthMax);
    this.#errors.set(key, { ...error, message, stack, at, count });
    if (this.#errors.size <= this.#errorsMax) return;
    const [oldest = ''] = this.#errors.keys();
    this.#errors.delete(oldest);
  }
}
