import { untilAborted } from './abort.ts';
import {
  type Breaker,
  type BreakerOptions,
  type BreakerStats,
  checkedRule,
  isServerFailure,
  judged,
} from './breaker.ts';
import { admit, type BreakerOutcome, type BreakerRule, mayProbeAt } from './breaker-state.ts';
import { checkInteger } from './check.ts';
import { type Clock, systemClock } from './clock.ts';
import { deadline } from './deadline.ts';
import { SpillwayError } from './errors.ts';
import { LinkedList } from './linked-list.ts';
import { type Random, systemRandom } from './random.ts';
import {
  BreakerRecord,
  learn,
  type News,
  newState,
  type SharedBreakerState,
  type SharedPass,
} from './shared-breaker-record.ts';
import type { SharedOptions } from './store-link.ts';
import type { Task } from './task.ts';
import { Waiter } from './wait-queue.ts';

export interface SharedBreakerOptions extends BreakerOptions, SharedOptions {}

export interface SharedBreakerStats extends BreakerStats {
  /** False while the store does not answer: then this process goes by what it sees itself. */
  readonly reachable: boolean;
}

/** How often a breaker in use asks the store, and how old its knowledge may be for a call. */
const tickMs = 250;
const staleMs = 500;
/** Beyond this, the oldest of what the store has not been told is forgotten. */
const newsMax = 10_000;

/**
 * A breaker that many processes keep together: open for all when it opened for one, probed by one
 * of all, closed for all. Calls that pass cost no visit to the store; what became of them is told
 * in batches. Without the store each process goes on by itself.
 */
export class SharedBreaker implements Pick<Breaker, 'run' | 'tryRun' | 'stats'>, AsyncDisposable {
  readonly #rule: BreakerRule;
  readonly #record: BreakerRecord;
  readonly #queueMax: number;
  readonly #isFailure: (error: unknown) => boolean;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #waiters = new LinkedList<Waiter<SharedPass>>();
  #state: SharedBreakerState;
  /** By how much the store's clock is ahead, as far as the last answer tells. */
  #aheadMs = 0;
  #seenAt = -Infinity;
  #news: News[] = [];
  #syncing: Promise<SharedPass | undefined> | undefined;
  #tick: Disposable | undefined;
  #used = false;
  #asking = false;
  #closed = false;
  #reachable = true;
  #lastFailure: unknown;
  #failures = 0;
  #refused = 0;

  constructor(options: SharedBreakerOptions) {
    this.#rule = checkedRule(options);
    this.#queueMax = options.queueMax ?? 0;
    checkInteger('queueMax', this.#queueMax, 0);
    this.#isFailure = options.isFailure ?? isServerFailure;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
    this.#record = new BreakerRecord(options, this.#rule, this.#random);
    this.#state = newState(this.#rule, this.#clock.now());
  }

  get stats(): SharedBreakerStats {
    const { status, since, probing, opened } = this.#state;
    return {
      state: status,
      since: since - this.#aheadMs,
      probing,
      waiting: this.#waiters.size,
      failures: this.#failures,
      opened,
      refused: this.#refused,
      reachable: this.#reachable,
    };
  }

  /** Calls if the breaker allows it; else waits for that in order of arrival, if there is room. */
  async run<T>(task: Task<T>, signal?: AbortSignal): Promise<T> {
    const pass = (await this.#enter(signal)) ?? (await this.#wait(signal));
    return this.#call(pass, task, signal);
  }

  /** Calls if the breaker allows it now; never goes ahead of those in this process who wait. */
  async tryRun<T>(task: Task<T>, signal?: AbortSignal): Promise<T> {
    const pass = await this.#enter(signal);
    if (pass === undefined) throw this.#refusal();
    return this.#call(pass, task, signal);
  }

  /** Tells the store what it has not been told; those who wait are refused. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#tick?.[Symbol.dispose]();
    const waiters = this.#waiters;
    for (let waiter = waiters.shift(); waiter; waiter = waiters.shift()) {
      waiter.refuse(this.#refusal());
    }
    if (this.#news.length > 0) await this.#sync(false);
  }

  /** Only what is out of date, or a probe, has to ask the store first. */
  async #enter(signal: AbortSignal | undefined): Promise<SharedPass | undefined> {
    signal?.throwIfAborted();
    this.#use();
    if (this.#reachable && this.#clock.now() - this.#seenAt > staleMs) {
      const fresh = this.#sync(false);
      await (signal ? untilAborted(fresh, signal) : fresh);
    }
    if (this.#waiters.size > 0) return undefined;
    if (this.#state.status === 'closed' || !this.#reachable) return this.#admitHere();
    if (this.#asking || this.#storeNow() < mayProbeAt(this.#state)) return undefined;
    this.#asking = true;
    const asked = this.#sync(true).finally(() => {
      this.#asking = false;
    });
    try {
      const pass = await (signal ? untilAborted(asked, signal) : asked);
      return pass ?? (this.stats.state === 'closed' ? this.#admitHere() : undefined);
    } catch (error) {
      // The caller left; leave to probe that comes all the same is somebody else's.
      void asked.then((pass) => pass && this.#give(pass));
      throw error;
    }
  }

  #admitHere(): SharedPass | undefined {
    const now = this.#storeNow();
    const pass = admit(this.#rule, this.#state, now, this.#random);
    if (pass?.probe) this.#state.prober = 'here';
    const endsAt = this.#clock.now() + this.#rule.probeMsMax;
    return pass && { ...pass, prober: 'here', endsAt };
  }

  #wait(signal: AbortSignal | undefined): Promise<SharedPass> {
    if (this.#closed || this.#waiters.size >= this.#queueMax) throw this.#refusal();
    const waiter = new Waiter<SharedPass>(signal);
    this.#waiters.push(waiter);
    this.#arm();
    return waiter.promise;
  }

  #refusal(): SpillwayError {
    this.#refused += 1;
    const restMs = this.#state.cooldownEndsAt - this.#storeNow();
    return new SpillwayError('BREAKER_OPEN', `${this.#state.status} after repeated failures`, {
      cause: this.#lastFailure,
      retryAfterMs: restMs > 0 ? restMs : undefined,
    });
  }

  async #call<T>(pass: SharedPass, task: Task<T>, caller: AbortSignal | undefined): Promise<T> {
    if (caller?.aborted) {
      this.#settle(pass, 'ignored');
      throw caller.reason;
    }
    const restMs = Math.max(0, pass.endsAt - this.#clock.now());
    using limit = pass.probe ? deadline(this.#clock, restMs, caller) : undefined;
    const signal = limit?.signal ?? caller ?? new AbortController().signal;
    let outcome: BreakerOutcome = 'ignored';
    try {
      const value = await task(signal);
      outcome = 'success';
      return value;
    } catch (error) {
      const verdict = judged(error, signal, this.#isFailure);
      outcome = verdict.outcome;
      if (outcome === 'failure') {
        this.#failures += 1;
        this.#lastFailure = verdict.reason;
      }
      throw error;
    } finally {
      this.#settle(pass, outcome);
    }
  }

  /** This process knows at once; the others with the next batch, or now if it is a turn. */
  #settle(pass: SharedPass, outcome: BreakerOutcome): void {
    const news: News = { ...pass, outcome, at: this.#storeNow() };
    const { status } = this.#state;
    learn(this.#rule, this.#state, news, this.#random);
    if (outcome !== 'ignored' || pass.probe) this.#news.push(news);
    if (this.#news.length > newsMax) this.#news.shift();
    this.#use();
    if (pass.probe || this.#state.status !== status) void this.#refresh();
  }

  #storeNow(): number {
    return this.#clock.now() + this.#aheadMs;
  }

  #use(): void {
    this.#used = true;
    if (this.#tick === undefined) this.#arm();
  }

  /** The next look at the store: soon, or as soon as somebody who waits may probe. */
  #arm(): void {
    this.#tick?.[Symbol.dispose]();
    if (this.#closed) return;
    const probeMs = mayProbeAt(this.#state) - this.#storeNow();
    const isWaiting = this.#waiters.size > 0 && this.#state.status !== 'closed';
    const ms = isWaiting ? Math.min(tickMs, Math.max(1, probeMs)) : tickMs;
    this.#tick = this.#clock.after(ms, () => {
      this.#tick = undefined;
      if (this.#used || this.#waiters.size > 0) void this.#refresh();
    });
  }

  async #refresh(): Promise<void> {
    this.#used = false;
    const pass = await this.#sync(this.#waiters.size > 0);
    if (pass !== undefined) this.#give(pass);
    if (this.#news.length > 0 || this.#waiters.size > 0) this.#arm();
  }

  #give(pass: SharedPass): void {
    const waiter = this.#waiters.shift();
    if (waiter) waiter.grant(pass);
    else this.#settle(pass, 'ignored');
  }

  /** One visit at a time; never rejects. */
  #sync(wantsProbe: boolean): Promise<SharedPass | undefined> {
    const before = this.#syncing;
    if (before && !wantsProbe) return before.then(() => undefined);
    const visit = (before ?? Promise.resolve()).then(() => this.#visit(wantsProbe));
    const done = visit.finally(() => {
      if (this.#syncing === done) this.#syncing = undefined;
    });
    this.#syncing = done;
    return done;
  }

  async #visit(wantsProbe: boolean): Promise<SharedPass | undefined> {
    const told = this.#news;
    this.#news = [];
    let own: SharedPass | undefined;
    try {
      const { state, pass, seen } = await this.#record.update(told, wantsProbe);
      own = pass;
      this.#reachable = true;
      this.#state = state;
      this.#seenAt = seen.sentAt;
      this.#aheadMs = seen.now - seen.receivedAt;
      // What happened since it was asked is not in the answer yet.
      for (const news of this.#news) learn(this.#rule, state, news, this.#random);
    } catch {
      this.#reachable = false;
      this.#news = [...told, ...this.#news].slice(-newsMax);
    }
    this.#letPass();
    return own;
  }

  #letPass(): void {
    while (this.#waiters.size > 0 && (this.#state.status === 'closed' || !this.#reachable)) {
      const pass = this.#admitHere();
      if (pass === undefined) return;
      this.#waiters.shift()?.grant(pass);
    }
  }
}
