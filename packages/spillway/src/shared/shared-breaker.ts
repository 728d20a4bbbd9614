import { untilAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { SpillwayError } from '../base/errors.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Task } from '../base/task.ts';
import { type Breaker, type BreakerOptions, checkedRule } from '../outbound/breaker.ts';
import { BreakerLine, type BreakerStats } from '../outbound/breaker-line.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  mayProbeAt,
} from '../outbound/breaker-state.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import {
  BreakerRecord,
  learn,
  type News,
  newState,
  type SharedBreakerState,
  type SharedPass,
} from './shared-breaker-record.ts';
import type { SharedOptions } from './store-link.ts';

export interface SharedBreakerOptions extends BreakerOptions, SharedOptions {}

export interface SharedBreakerStats extends BreakerStats {
  /** False while the store does not answer: then this process goes by what it sees itself. */
  readonly reachable: boolean;
}

/** How often a breaker in use asks the store, and how old its knowledge may be for a call. */
const tickMs = 250;
const staleMs = 500;
/** A process that was stopped gets an answer out of date; from a slow store there is no better. */
const visitsMax = 2;
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
  readonly #line: BreakerLine<SharedPass>;
  readonly #clock: Clock;
  readonly #random: Random;
  #state: SharedBreakerState;
  /** By how much the store's clock is ahead, as far as the last answer tells. */
  #aheadMs = 0;
  #seenAt = -Infinity;
  /** Answers in a row that were out of date when they came. */
  #staleVisits = 0;
  #news: News[] = [];
  #syncing: Promise<SharedPass | undefined> | undefined;
  #tick: Disposable | undefined;
  #used = false;
  #asking = false;
  #closed = false;
  #reachable = true;

  constructor(options: SharedBreakerOptions) {
    this.#rule = checkedRule(options);
    this.#line = new BreakerLine(options);
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
    this.#record = new BreakerRecord(options, this.#rule, this.#random);
    this.#state = newState(this.#rule, this.#clock.now());
  }

  get stats(): SharedBreakerStats {
    const stats = this.#line.stats(this.#state);
    return { ...stats, since: stats.since - this.#aheadMs, reachable: this.#reachable };
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
    this.#line.refuseAll(this.#state, this.#storeNow());
    if (this.#news.length > 0) await this.#sync(false);
  }

  /** Only what is out of date, or a probe, has to ask the store first. */
  async #enter(signal: AbortSignal | undefined): Promise<SharedPass | undefined> {
    signal?.throwIfAborted();
    this.#use();
    for (let visits = 0; visits < visitsMax && this.#reachable && this.#isStale(); visits += 1) {
      const fresh = this.#sync(false);
      await untilAborted(fresh, signal);
    }
    if (this.#line.waiting > 0) return undefined;
    if (this.#state.status === 'closed' || !this.#reachable) return this.#admitHere();
    if (this.#asking || this.#storeNow() < mayProbeAt(this.#state)) return undefined;
    this.#asking = true;
    const asked = this.#sync(true).finally(() => {
      this.#asking = false;
    });
    try {
      const pass = await untilAborted(asked, signal);
      return pass ?? (this.stats.state === 'closed' ? this.#admitHere() : undefined);
    } catch (error) {
      // The caller left; leave to probe that comes all the same is somebody else's.
      void asked.then((pass) => pass && this.#give(pass));
      throw error;
    }
  }

  #isStale(): boolean {
    return Math.abs(this.#clock.now() - this.#seenAt) > staleMs;
  }

  #admitHere(): SharedPass | undefined {
    const now = this.#storeNow();
    const pass = admit(this.#rule, this.#state, now, this.#random);
    if (pass?.probe) this.#state.prober = 'here';
    const endsAt = this.#clock.now() + this.#rule.probeMsMax;
    return pass && { ...pass, prober: 'here', endsAt };
  }

  #wait(signal: AbortSignal | undefined): Promise<SharedPass> {
    if (this.#closed || this.#line.isFull) return rejectSoon(this.#refusal());
    const turn = this.#line.wait(signal);
    this.#arm();
    return turn;
  }

  #refusal(): SpillwayError {
    return this.#line.refusal(this.#state, this.#storeNow());
  }

  async #call<T>(pass: SharedPass, task: Task<T>, signal: AbortSignal | undefined): Promise<T> {
    const probeMsMax = pass.endsAt - this.#clock.now();
    // Its time is over before it began: by now somebody else may probe.
    if (pass.probe && probeMsMax <= 0) {
      this.#settle(pass, 'ignored');
      throw this.#refusal();
    }
    const call = { pass, clock: this.#clock, probeMsMax, settle: this.#settle };
    return this.#line.call(call, task, signal);
  }

  /** This process knows at once; the others with the next batch, or now if it is a turn. */
  readonly #settle = (pass: SharedPass, outcome: BreakerOutcome): void => {
    const news: News = { ...pass, outcome, at: this.#storeNow() };
    const { status } = this.#state;
    learn(this.#rule, this.#state, news, this.#random);
    if (outcome !== 'ignored' || pass.probe) this.#news.push(news);
    if (this.#news.length > newsMax) this.#news.shift();
    this.#use();
    if (pass.probe || this.#state.status !== status) void this.#refresh();
  };

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
    const isWaiting = this.#line.waiting > 0 && this.#state.status !== 'closed';
    const ms = isWaiting ? Math.min(tickMs, Math.max(1, probeMs)) : tickMs;
    this.#tick = this.#clock.after(ms, () => {
      this.#tick = undefined;
      if (this.#used || this.#line.waiting > 0) void this.#refresh();
    });
  }

  async #refresh(): Promise<void> {
    this.#used = false;
    const pass = await this.#sync(this.#line.waiting > 0);
    if (pass !== undefined) this.#give(pass);
    if (this.#news.length > 0 || this.#line.waiting > 0) this.#arm();
  }

  #give(pass: SharedPass): void {
    if (!this.#line.grant(pass)) this.#settle(pass, 'ignored');
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
      this.#staleVisits = this.#isStale() ? this.#staleVisits + 1 : 0;
      this.#aheadMs = seen.now - seen.receivedAt;
      // What happened since it was asked is not in the answer yet.
      for (const news of this.#news) learn(this.#rule, state, news, this.#random);
    } catch {
      this.#reachable = false;
      this.#staleVisits = 0;
      this.#news = [...told, ...this.#news].slice(-newsMax);
    }
    this.#letPass();
    return own;
  }

  #letPass(): void {
    if (this.#reachable && this.#state.status !== 'closed') return;
    if (this.#staleVisits > 0 && this.#staleVisits < visitsMax) return;
    while (this.#line.waiting > 0) {
      const pass = this.#admitHere();
      if (pass === undefined) return;
      this.#line.grant(pass);
    }
  }
}
