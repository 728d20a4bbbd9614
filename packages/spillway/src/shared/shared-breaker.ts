import { untilAborted } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import type { SpillwayError } from '../base/errors.ts';
import { settle } from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { Random } from '../base/random.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import {
  BreakerCalls,
  type BreakerOptions,
  type BreakerStats,
  breakerRules,
} from '../outbound/breaker.ts';
import {
  admit,
  type BreakerOutcome,
  type BreakerRule,
  mayProbeAt,
  type Pass,
} from '../outbound/breaker-state.ts';
import type { StoreDecision } from '../store/store.ts';
import {
  type BreakerAnswer,
  type BreakerNews,
  breakerArgument,
  breakerDecision,
  breakerRecord,
  learnNews,
  newSharedState,
  type SharedState,
} from './breaker-record.ts';
import { type SharedOptions, StoreLink, sharedRules } from './store-link.ts';

export interface SharedBreakerOptions extends BreakerOptions, SharedOptions {}

export interface SharedBreakerStats extends BreakerStats<'shared-breaker'> {
  /** False while the store does not answer: then only this process's own calls count. */
  readonly reachable: boolean;
}

/** Permission to call, with the visit that announced the probe. */
interface SharedPass extends Pass {
  readonly prober: string;
  /** End of a probe's time, by the local clock; it counts from before it was announced. */
  readonly endsAt: number;
}

/** Milliseconds between two visits to the store while the breaker is in use. */
const tickMs = 250;
/** A call is let through on an answer of the store that is at most this old, in milliseconds. */
const staleMs = 500;
/** Visits before a call: a stopped process may get one stale answer, a slow store only stale. */
const visitsMax = 2;
/** Outcomes kept while the store does not answer; beyond them the oldest are dropped. */
const newsMax = 10_000;

/**
 * A breaker that many processes keep together: open for all when it opened for one, probed by one
 * of all, closed for all. Without the store each process goes on by itself.
 *
 *     call of `run`                         the store's record
 *     ─────────────                         ──────────────────
 *     answer older than 500 ms? ── visit ──> add the outcomes of earlier calls
 *     closed: call                    <───── state of all processes
 *     open, cooldown over: ─────── visit ──> note that this process probes
 *       it may: call as probe         <───── leave to probe, until `probeEndsAt`
 *       another process was faster: refuse
 *     else: refuse
 *     the call ended: learn it here at once
 *       a probe, or the state turned: ─────> visit at once
 *       else: ──── with the visit of the next tick (250 ms), many outcomes in one visit
 */
export class SharedBreaker implements Part, Runner, AsyncDisposable {
  readonly name: string;
  readonly #rule: BreakerRule;
  readonly #decision: StoreDecision;
  readonly #record: string;
  readonly #link: StoreLink;
  readonly #calls: BreakerCalls<SharedPass>;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #closing: Closing;
  #state: SharedState;
  /** Lead of the store's clock over this one, as far as the last answer tells. */
  #aheadMs = 0;
  /** Time at which the last answer was asked for. */
  #seenAt = -Infinity;
  /** Outcomes that are not in the store yet. */
  #news: BreakerNews[] = [];
  #visiting: Promise<SharedPass | undefined> | undefined;
  #tick: Disposable | undefined;
  /** True if anybody called since the last visit. */
  #isUsed = false;
  #asksToProbe = false;
  #isReachable = true;

  constructor(options: SharedBreakerOptions) {
    const rules = { ...breakerRules(options), ...sharedRules };
    const settled = settle('SharedBreaker', options, rules);
    this.name = settled.name;
    this.#rule = settled;
    this.#decision = breakerDecision(settled);
    this.#record = breakerRecord(settled.name, settled);
    this.#clock = settled.clock;
    this.#random = settled.random;
    this.#closing = new Closing(this.#clock, (limit) => this.#close(limit));
    this.#calls = new BreakerCalls(settled, this.#settle);
    this.#link = new StoreLink(settled);
    this.#state = newSharedState(settled, this.#clock.now());
  }

  get stats(): SharedBreakerStats {
    const stats = this.#calls.stats('shared-breaker', this.#state);
    return { ...stats, since: stats.since - this.#aheadMs, reachable: this.#isReachable };
  }

  /** Runs the task if the breaker allows it; may wait for the store, never for the cooldown. */
  async run<T>(task: Task<T>, { signal }: RunOptions = {}): Promise<T> {
    const pass = await this.#enter(signal);
    if (pass === undefined) throw this.#refusal();
    const probeMsMax = pass.endsAt - this.#clock.now();
    // The time of the probe is over: another process may probe by now.
    if (pass.probe && probeMsMax <= 0) {
      this.#settle(pass, 'ignored');
      throw this.#refusal();
    }
    return this.#calls.call(task, { pass, probeMsMax, signal });
  }

  /** True until `close`: without the store each process goes on by itself. */
  get ready(): boolean {
    return !this.#closing.hasBegun;
  }

  /** Sends the last outcomes to the store. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    this.#tick?.[Symbol.dispose]();
    if (this.#news.length > 0) await untilAborted(this.#visit(false), limit);
  }

  /** Gives permission to call. Only a stale state or a probe needs a visit first. */
  async #enter(signal: AbortSignal | undefined): Promise<SharedPass | undefined> {
    signal?.throwIfAborted();
    this.#use();
    for (let visits = 0; visits < visitsMax && this.#isReachable && this.#isStale(); visits += 1) {
      await untilAborted(this.#visit(false), signal);
    }
    if (this.#state.status === 'closed' || !this.#isReachable) return this.#admitHere();
    if (this.#asksToProbe || this.#storeNow() < mayProbeAt(this.#state)) return undefined;
    this.#asksToProbe = true;
    const asked = this.#visit(true).finally(() => {
      this.#asksToProbe = false;
    });
    try {
      const pass = await untilAborted(asked, signal);
      return pass ?? (this.stats.state === 'closed' ? this.#admitHere() : undefined);
    } catch (error) {
      // The caller left: permission to probe that still comes is given back.
      void asked.then((pass) => pass && this.#settle(pass, 'ignored'));
      throw error;
    }
  }

  #isStale(): boolean {
    return Math.abs(this.#clock.now() - this.#seenAt) > staleMs;
  }

  #admitHere(): SharedPass | undefined {
    const pass = admit(this.#rule, this.#state, this.#storeNow(), this.#random);
    if (pass?.probe) this.#state.prober = 'here';
    return pass && { ...pass, prober: 'here', endsAt: this.#clock.now() + this.#rule.probeMsMax };
  }

  #refusal(): SpillwayError {
    return this.#calls.refusal(this, this.#state, this.#storeNow());
  }

  /** Notes an outcome here at once; sent with the next tick, or now if the state has changed. */
  readonly #settle = (pass: SharedPass, outcome: BreakerOutcome): void => {
    const news: BreakerNews = { ...pass, outcome, at: this.#storeNow() };
    const { status } = this.#state;
    learnNews(this.#rule, this.#state, news, this.#random);
    if (outcome !== 'ignored' || pass.probe) this.#news.push(news);
    if (this.#news.length > newsMax) this.#news.shift();
    this.#use();
    if (pass.probe || this.#state.status !== status) void this.#refresh();
    this.#calls.tell(this, this.#state);
  };

  #storeNow(): number {
    return this.#clock.now() + this.#aheadMs;
  }

  #use(): void {
    this.#isUsed = true;
    if (this.#tick === undefined) this.#arm();
  }

  #arm(): void {
    this.#tick?.[Symbol.dispose]();
    if (this.#closing.hasBegun) return;
    this.#tick = this.#clock.after(tickMs, () => {
      this.#tick = undefined;
      if (this.#isUsed) void this.#refresh();
    });
  }

  async #refresh(): Promise<void> {
    this.#isUsed = false;
    await this.#visit(false);
    if (this.#news.length > 0) this.#use();
  }

  /** Visits the store, one visit at a time; never rejects. Gives permission to probe, if any. */
  #visit(wantsProbe: boolean): Promise<SharedPass | undefined> {
    const before = this.#visiting;
    if (before && !wantsProbe) return before.then(() => undefined);
    const visit = (before ?? Promise.resolve()).then(() => this.#update(wantsProbe));
    const done = visit.finally(() => {
      if (this.#visiting === done) this.#visiting = undefined;
    });
    this.#visiting = done;
    return done;
  }

  async #update(wantsProbe: boolean): Promise<SharedPass | undefined> {
    const told = this.#news;
    this.#news = [];
    const id = this.#link.newId();
    const visit = { id, told, wantsProbe, chance: this.#random() };
    const argument = breakerArgument(this.#rule, visit);
    try {
      const seen = await this.#link.apply(this.#record, this.#decision, argument);
      const { state, probes } = seen.answer as unknown as BreakerAnswer;
      this.#isReachable = true;
      this.#state = state;
      this.#seenAt = seen.sentAt;
      this.#aheadMs = seen.now - seen.receivedAt;
      // Outcomes since the visit began are not in the answer.
      for (const news of this.#news) learnNews(this.#rule, state, news, this.#random);
      this.#calls.tell(this, state);
      const { generation } = state;
      const endsAt = seen.sentAt + state.probeEndsAt - seen.now;
      return probes ? { generation, probe: true, prober: id, endsAt } : undefined;
    } catch {
      this.#isReachable = false;
      this.#news = [...told, ...this.#news].slice(-newsMax);
      return undefined;
    }
  }
}
