import { runUntilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { isRefusal } from '../base/errors.ts';
import { field, retryAfterMsOf, statusOf } from '../base/failure.ts';
import {
  callback,
  clockRule,
  instance,
  maybe,
  nested,
  number,
  or,
  positive,
  type Rule,
  runnerRule,
  settle,
} from '../base/options.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { type Traced, tracing } from '../base/trace.ts';
import { failureShare } from './break-rule.ts';
import { Breaker, type BreakerOptions } from './breaker.ts';
import { Bucket, type BucketOptions, rateMax, type SlowOptions } from './bucket.ts';
import { Retry, type RetryOptions } from './retry.ts';
import { type Stack, stack } from './stack.ts';

/** A Bucket or a SharedBucket. */
interface Rate extends Runner {
  slow(options: SlowOptions): void;
}

export interface OutboundOptions<Fallback = never> {
  /** Calls begun a second, or a bucket that other parts may share. @default no limit */
  readonly rate?: number | BucketOptions | Rate | undefined;
  /** Gate or Lane that bounds the calls under way. @default no limit */
  readonly lane?: Runner | undefined;
  /**
   * Breaker, its options, or false for none.
   * @default a Breaker that opens when half of at least 10 calls in 10 s have failed
   */
  readonly breaker?: BreakerOptions | Runner | false | undefined;
  /** Retry, its options, or false for none. @default a Retry with its defaults */
  readonly retry?: RetryOptions | Runner | false | undefined;
  /** Milliseconds for one attempt, without its wait for a token; from 1. @default 10_000 */
  readonly attemptMs?: number | undefined;
  /** Milliseconds for a call with all its attempts and waits; from 1. @default 30_000 */
  readonly deadlineMs?: number | undefined;
  /**
   * True for a result that is a failure. It is tried again, unless it has a `status` other than
   * 429, 502, 503 or 504; the caller gets the last one. @default a status of 429 or from 500
   */
  readonly isFailure?: ((result: unknown) => boolean) | undefined;
  /** Answer in place of a failure. @default the failure */
  readonly fallback?: ((failure: unknown) => Fallback | Promise<Fallback>) | undefined;
  readonly clock?: Clock | undefined;
}

export interface OutboundStats {
  readonly kind: 'outbound';
  readonly calls: number;
  /** Calls that ended with an error, a bad result or the fallback. */
  readonly failures: number;
  /** Stats of the parts it is made of. */
  readonly rate: unknown;
  readonly lane: unknown;
  readonly breaker: unknown;
  readonly retry: unknown;
}

/**
 * By share, not in a row: many calls are under way at once, so one stall of this process or of the
 * network makes many of them fail at the same moment, which says little about the other side.
 */
const breakRule = failureShare({ share: 0.5, windowMs: 10_000, callsMin: 10 });

const callTraits: Traced = { name: 'outbound.call', attributes: {} };

/** Carries a result that is a failure through retry and breaker, which only know errors. */
class BadResult extends Error {
  readonly result: unknown;
  readonly status: number | undefined;
  readonly headers: unknown;
  readonly retryable: boolean | undefined;

  constructor(result: unknown) {
    const status = statusOf(result);
    super(status === undefined ? 'a result that is a failure' : `status ${status}`);
    this.result = result;
    this.status = status;
    this.headers = field(result, 'headers');
    this.retryable = status === undefined ? true : undefined;
  }
}

/**
 * Calls one other service, with everything that protects both sides. A permit of the lane is held
 * for all attempts; each attempt asks the breaker, waits for a token of the bucket, and has a time
 * limit of its own. A 429 slows the bucket down, and `Retry-After` is obeyed.
 */
export class Outbound<Fallback = never> {
  readonly #rate: Rate | undefined;
  readonly #lane: Runner | undefined;
  readonly #breaker: Runner | undefined;
  readonly #retry: Runner | undefined;
  readonly #options: ReturnType<typeof settings<Fallback>>;
  readonly #all: Stack;
  readonly #once: Stack;
  #calls = 0;
  #failures = 0;

  constructor(options: OutboundOptions<Fallback> = {}) {
    this.#options = settings(options);
    const { rate, breaker, retry, lane, clock } = this.#options;
    const perSecond = typeof rate === 'number' ? { ratePerSecond: rate, queueMax: 1_000 } : rate;
    if (perSecond !== undefined) {
      this.#rate = 'run' in perSecond ? perSecond : new Bucket({ clock, ...perSecond });
    }
    if (breaker) {
      const rule = breakRule;
      this.#breaker = 'run' in breaker ? breaker : new Breaker({ clock, rule, ...breaker });
    }
    if (retry) this.#retry = 'run' in retry ? retry : new Retry({ clock, ...retry });
    this.#lane = lane;
    const attempt: Runner = { run: (task, { signal } = {}) => this.#attempt(task, signal) };
    const inner = [this.#breaker, this.#rate, attempt].filter((part) => part !== undefined);
    const outer = lane === undefined ? [] : [lane];
    this.#once = stack(...outer, ...inner);
    this.#all = stack(...outer, ...(this.#retry === undefined ? [] : [this.#retry]), ...inner);
  }

  get stats(): OutboundStats {
    const statsOf = (part: unknown) => field(part, 'stats');
    return {
      kind: 'outbound',
      calls: this.#calls,
      failures: this.#failures,
      rate: statsOf(this.#rate),
      lane: statsOf(this.#lane),
      breaker: statsOf(this.#breaker),
      retry: statsOf(this.#retry),
    };
  }

  run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T | Fallback> {
    return this.#call(this.#all, task, signal);
  }

  /**
   * `fetch` within the same limits. A bad answer, such as a 503, is tried again, and given to the
   * caller in the end; POST and PATCH are tried once, unless they have an `Idempotency-Key`. The
   * body is read when the attempt is over: only the caller's own signal bounds that.
   */
  readonly fetch = async (
    input: string | URL | Request,
    init?: RequestInit,
  ): Promise<Response | Fallback> => {
    const request = new Request(input, init);
    const isOnce = ['POST', 'PATCH'].includes(request.method);
    const path = isOnce && !request.headers.has('idempotency-key') ? this.#once : this.#all;
    let last: Response | undefined;
    let attempts = 0;
    const attempt = async (signal: AbortSignal): Promise<Response> => {
      // An unread body keeps its connection.
      await last?.body?.cancel();
      // The caller's signal ends the reading of the body, too, when the attempt is long over.
      const both = AbortSignal.any([signal, request.signal]);
      const send = (sent: Request): Promise<Response> => fetch(sent, { signal: both });
      const { tracer } = tracing;
      const copy = request.clone();
      last = await (tracer === undefined ? send(copy) : tracer.send(copy, attempts, send));
      attempts += 1;
      return last;
    };
    let result: Response | Fallback | undefined;
    try {
      result = await this.#call(path, attempt, request.signal);
      return result;
    } finally {
      const isGiven = field(result, 'body') === last?.body;
      if (!isGiven) void last?.body?.cancel().catch(() => {});
    }
  };

  async #call<T>(
    path: Stack,
    task: Task<T>,
    signal: AbortSignal | undefined,
  ): Promise<T | Fallback> {
    const { clock, deadlineMs, fallback } = this.#options;
    signal?.throwIfAborted();
    this.#calls += 1;
    using limit = deadline(clock, deadlineMs, signal);
    try {
      const options = { signal: limit.signal };
      if (tracing.tracer === undefined) return await path(task, options);
      return await tracing.tracer.span(callTraits, () => path(task, options));
    } catch (error) {
      this.#failures += 1;
      if (signal?.aborted) throw signal.reason;
      const failure = error instanceof BadResult ? error.result : error;
      if (fallback !== undefined) {
        return await runUntilAborted(async () => await fallback(failure), signal);
      }
      if (error instanceof BadResult) return error.result as T;
      throw error;
    }
  }

  async #attempt<T>(task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    const { clock, attemptMs, isFailure } = this.#options;
    using limit = deadline(clock, attemptMs, signal);
    try {
      const result = await runUntilAborted(task, limit.signal);
      if (!isFailure(result)) return result;
      throw new BadResult(result);
    } catch (error) {
      if (statusOf(error) === 429 && !isRefusal(error)) {
        this.#rate?.slow({ retryAfterMs: retryAfterMsOf(error) });
      }
      throw error;
    }
  }
}

/** Makes an {@link Outbound}: `const exchange = outbound({ rate: 10, attemptMs: 2_000 });` */
export function outbound<Fallback = never>(
  options: OutboundOptions<Fallback> = {},
): Outbound<Fallback> {
  return new Outbound(options);
}

const rateNumber = positive(rateMax);
const rateRule = instance(
  (value) => rateNumber.holds(value) || nested.holds(value),
  `${rateNumber.rule}, a bucket or the options of one`,
);

/** A part, its options, or false for none. */
function switchable(part: string): Rule<never> {
  const rule = `${part}, the options of one, or false`;
  return instance((value) => value === false || nested.holds(value), rule);
}

function settings<Fallback>(options: OutboundOptions<Fallback>) {
  return settle('outbound', options, {
    rate: maybe(rateRule),
    lane: maybe(runnerRule),
    breaker: or(switchable('a Breaker'), {}),
    retry: or(switchable('a Retry'), {}),
    attemptMs: or(number(1), 10_000),
    deadlineMs: or(number(1), 30_000),
    isFailure: or(callback, hasBadStatus),
    fallback: maybe(callback),
    clock: or(clockRule, systemClock),
  });
}

function hasBadStatus(result: unknown): boolean {
  const status = statusOf(result) ?? 200;
  return status === 429 || status >= 500;
}
