import { untilAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { field, retryAfterMsOf, statusOf } from '../base/failure.ts';
import type { Json } from '../base/json.ts';
import {
  callback,
  clockRule,
  type Filled,
  flag,
  having,
  integer,
  maybe,
  number,
  oneOf,
  or,
  positive,
  runnerRule,
  settle,
  storeRule,
} from '../base/options.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { Runner, RunOptions } from '../base/task.ts';
import { Lane } from '../lane/lane.ts';
import type { Permit } from '../lane/permit.ts';
import { Meter } from '../meter/meter.ts';
import { Breaker } from '../outbound/breaker.ts';
import type { Store } from '../store/store.ts';
import { HarvestLimit } from './limit.ts';
import { type HarvestOutcome, type HarvestSourceStats, Run } from './run.ts';
import type { HarvestSink, HarvestSource } from './source.ts';
import { Notifier, type Slot, type Source } from './window.ts';

/** The rate of a harvest: a `Bucket`, a `SharedBucket`, or what wraps one. */
export interface HarvestBucket {
  take(n: number, options?: RunOptions): Promise<void>;
  slow(told?: { readonly retryAfterMs?: number | undefined }): void;
  readonly stats: { readonly ratePerSecond: number };
}

/** A `Breaker` or a `SharedBreaker`; one without a state has no probes. */
export interface HarvestBreaker extends Runner {
  readonly stats?: { readonly state: string };
}

export interface HarvestOptions<Row, Position extends Json = number> {
  /** The place where rows and checkpoints are committed. */
  readonly sink: HarvestSink<Row, Position>;
  /** Keeps the leases of the sources. */
  readonly store: Store;
  /** The rate that all sources share, a `Bucket` or a `SharedBucket`. @default no rate */
  readonly bucket?: HarvestBucket | undefined;
  /** A `Breaker` or a `SharedBreaker`. @default a breaker of its own */
  readonly breaker?: HarvestBreaker | undefined;
  /**
   * `prefix` commits pages that are complete from the start, and notes pages that were given up in
   * the gap ledger; `strict` commits whole batches, and a page that was given up ends its source.
   * @default 'prefix'
   */
  readonly mode?: 'prefix' | 'strict' | undefined;
  /** Asks for the gaps in the ledger again, before anything else. @default false */
  readonly fillsGaps?: boolean | undefined;
  /** The number of sources harvested at once; an integer from 1. @default 64 */
  readonly sourcesMax?: number | undefined;
  /** The number of fetches of one source in flight; an integer from 1. @default `inFlightMax` */
  readonly pagesMax?: number | undefined;
  /** The number of fetches in flight in all; an integer from 1. @default 1_000 */
  readonly inFlightMax?: number | undefined;
  /** Pages asked for and not committed, of all sources together; from 1. @default 1_000 */
  readonly windowMax?: number | undefined;
  /**
   * Bytes of the pages asked for and not committed, above 0: by the `bytes` of answers, each page
   * counted like the largest of late. One page is always allowed. @default Infinity
   */
  readonly windowBytesMax?: number | undefined;
  /** The number of pages committed together; from 1 to `windowMax`. @default 100 or `windowMax` */
  readonly batchPages?: number | undefined;
  /** In `prefix` mode, the wait of a page for a fuller batch, in ms; from 0. @default 1_000 */
  readonly batchMsMax?: number | undefined;
  /** Attempts for a page, or a commit, in all; an integer from 1. @default 10 */
  readonly attemptsMax?: number | undefined;
  /** The longest wait after the first attempt, in ms; doubles each time. From 0. @default 500 */
  readonly backoffMs?: number | undefined;
  /** The end of the doubling, in milliseconds; from `backoffMs`. @default 30_000 or `backoffMs` */
  readonly backoffMsMax?: number | undefined;
  /** The time for a fetch, or a commit, in milliseconds; from 1. @default 30_000 */
  readonly attemptMsMax?: number | undefined;
  /** The number of gaps in a source's ledger; one more ends it. From 0. @default 1_000 */
  readonly gapsMax?: number | undefined;
  /** Life of a lease that is not renewed, in milliseconds; from 30. @default 60_000 */
  readonly leaseMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** The checked options with the defaults filled in. */
export type Settings = Filled<Omit<HarvestOptions<unknown, Json>, 'bucket' | 'breaker'>>;

function settingsOf(options: HarvestOptions<unknown, Json>): Settings {
  const given: HarvestOptions<unknown, Json> = Object(options);
  const { inFlightMax = 1_000, windowMax = 1_000, backoffMs = 500 } = given;
  return settle('Harvest', options, {
    sink: having('a HarvestSink, with commit()', 'commit'),
    store: storeRule,
    bucket: maybe(having('a bucket, with take() and slow()', 'take', 'slow')),
    breaker: maybe(runnerRule),
    mode: or(oneOf('prefix', 'strict'), 'prefix'),
    fillsGaps: or(flag, false),
    sourcesMax: or(integer(1), 64),
    inFlightMax: or(integer(1), 1_000),
    pagesMax: or(integer(1), inFlightMax),
    windowMax: or(integer(1), 1_000),
    windowBytesMax: or(positive(), Infinity),
    batchPages: or(integer(1, windowMax), Math.min(100, windowMax)),
    batchMsMax: or(number(0), 1_000),
    attemptsMax: or(integer(1), 10),
    backoffMs: or(number(0), 500),
    backoffMsMax: or(number(backoffMs), Math.max(30_000, backoffMs)),
    attemptMsMax: or(number(1), 30_000),
    gapsMax: or(integer(0), 1_000),
    leaseMs: or(number(30, 2 ** 31), 60_000),
    clock: or(clockRule, systemClock),
    random: or(callback, systemRandom),
  });
}

export interface HarvestStats<Position> {
  readonly kind: 'harvest';
  /** Fetches begun per second, lately. */
  readonly ratePerSecond: number;
  /** That, as a share of what the bucket gives out now; undefined without a bucket. */
  readonly rateShare: number | undefined;
  readonly inFlight: number;
  /** The number of fetches that the limit allows in flight. */
  readonly limit: number;
  /** Pages asked for and not committed. */
  readonly window: number;
  readonly windowMax: number;
  readonly retries: number;
  /** Fetches that were answered with a 429. */
  readonly throttled: number;
  readonly gaps: number;
  /** Milliseconds until all is done at this rate; undefined where that cannot be known. */
  readonly etaMs: number | undefined;
  /** The sources that have begun, in that order. */
  readonly sources: readonly HarvestSourceStats<Position>[];
}

/** Pause after a refusal without `retryAfterMs`, in milliseconds. */
const pauseMs = 100;
/** Pages asked for before the first answer tells how large one is, if their bytes are bounded. */
const pagesAtFirst = 4;
/** Share of the largest page that is left of it with each smaller one. */
const pageDecay = 0.98;

/**
 * Many small fetches of ordered ranges: in parallel, all at one rate that sources share in turn,
 * fetched again on failure while others go on, delivered in order, and committed with a checkpoint
 * under a fenced lease. It finds the number in flight by itself.
 */
export class Harvest<Row, Position extends Json = number> {
  readonly #settings: Settings;
  readonly #bucket: HarvestBucket | undefined;
  readonly #breaker: HarvestBreaker;
  readonly #limit: HarvestLimit;
  readonly #lane: Lane;
  /** Fetches that were begun, without those that the breaker or the bucket refused. */
  readonly #begun: Meter;
  readonly #room = new Notifier();
  /** Sources that have begun. */
  #runs: Run[] = [];
  /** Sources that have not ended, in the order of their turns. */
  #turns: Run[] = [];
  /** The number of sources that share the window. */
  #sharers = 0;
  #isRunning = false;
  #inFlight = 0;
  /** No fetch begins before this time: the breaker or the bucket has refused one. */
  #pausedUntil = -Infinity;
  #throttled = 0;
  /** Bytes of the largest page of late; undefined before the first answer. */
  #pageBytes: number | undefined;

  constructor(options: HarvestOptions<Row, Position>) {
    this.#settings = settingsOf(options as HarvestOptions<unknown, Json>);
    const { clock, random, inFlightMax } = this.#settings;
    this.#bucket = options.bucket;
    this.#breaker = options.breaker ?? new Breaker({ clock, random });
    this.#limit = new HarvestLimit(inFlightMax, () => this.#bucket?.stats.ratePerSecond ?? 0);
    const limit = this.#limit;
    this.#begun = new Meter(clock.now());
    this.#lane = new Lane({ name: 'harvest', limit, queueMax: 1, deadlineMs: Infinity, clock });
  }

  get stats(): HarvestStats<Position> {
    const { limit } = this.#lane.stats;
    const { arrivalsPerSecond } = this.#begun.stats(this.#settings.clock.now());
    const permitted = this.#bucket?.stats.ratePerSecond;
    const sources = this.#runs.map((run) => run.stats as HarvestSourceStats<Position>);
    const sum = (name: 'window' | 'retries' | 'gaps'): number =>
      sources.reduce((total, stats) => total + stats[name], 0);
    const left = this.#turns.reduce((total, run) => total + (run.pagesLeft ?? NaN), 0);
    const etaMs = (left * 1000) / arrivalsPerSecond;
    return {
      kind: 'harvest',
      ratePerSecond: arrivalsPerSecond,
      rateShare: permitted === undefined ? undefined : arrivalsPerSecond / permitted,
      inFlight: this.#inFlight,
      limit,
      window: sum('window'),
      windowMax: this.#settings.windowMax,
      retries: sum('retries'),
      throttled: this.#throttled,
      gaps: sum('gaps'),
      etaMs: Number.isFinite(etaMs) ? etaMs : undefined,
      sources,
    };
  }

  /**
   * Harvests all sources and gives the outcome of each; one that fails does not stop the others.
   * When the signal aborts, complete pages are committed before it resolves. One call at a time.
   */
  async run(
    sources: readonly HarvestSource<Row, Position>[],
    { signal = new AbortController().signal }: RunOptions = {},
  ): Promise<readonly HarvestOutcome<Position>[]> {
    check(!this.#isRunning, 'run', 'called again only when it is over', 'a call meanwhile');
    const names = new Set(sources.map((source) => source.name));
    check(names.size === sources.length, 'sources', 'each of its own name', [...names]);
    this.#isRunning = true;
    this.#runs = [];
    const { mode, sourcesMax, windowMax, batchPages } = this.#settings;
    const pagesEach = mode === 'strict' ? batchPages : 1;
    this.#sharers = Math.min(sources.length, sourcesMax, Math.floor(windowMax / pagesEach));
    const stop = () => {
      for (const run of this.#turns) run.end('stopped', signal.reason);
    };
    signal.addEventListener('abort', stop, { once: true });
    const outcomes: HarvestOutcome<Json>[] = [];
    const rest = sources.entries();
    const work = Array.from({ length: this.#sharers }, async () => {
      for (const [at, source] of rest) outcomes[at] = await this.#harvest(source as Source, signal);
      this.#sharers -= 1;
      this.#room.notify();
    });
    await Promise.all([...work, this.#dispatch()]);
    signal.removeEventListener('abort', stop);
    this.#isRunning = false;
    return outcomes as HarvestOutcome<Position>[];
  }

  async #harvest(source: Source, signal: AbortSignal): Promise<HarvestOutcome<Json>> {
    const windowMax = () => this.#windowOf(run);
    const run: Run = new Run(source, this.#settings, windowMax, this.#room);
    if (signal.aborted) run.end('stopped', signal.reason);
    this.#runs.push(run);
    this.#turns.push(run);
    const outcome = await run.run();
    this.#turns.splice(this.#turns.indexOf(run), 1);
    return outcome;
  }

  /** The number of pages that a source may have asked for and not committed, now. */
  #windowOf(run: Run): number {
    const { windowMax, windowBytesMax } = this.#settings;
    const pageBytes = this.#pageBytes ?? windowBytesMax / pagesAtFirst;
    const pagesMax = Math.max(1, Math.floor(windowBytesMax / pageBytes));
    if (windowBytesMax === Infinity || pagesMax >= windowMax) {
      return Math.floor(windowMax / this.#sharers);
    }
    // With less than one page for each source, one waits until another has committed.
    const pages = this.#turns.reduce((total, one) => total + one.window, 0);
    if (run.window === 0 && pages >= pagesMax) return 0;
    return Math.max(1, Math.floor(pagesMax / this.#sharers));
  }

  /** Begins one fetch after another, as fast as permits and tokens come. */
  async #dispatch(): Promise<void> {
    const { clock } = this.#settings;
    while (this.#sharers > 0) {
      const waitMs = this.#msUntilReady();
      if (waitMs > 0) {
        await this.#room.wait(clock, waitMs);
        continue;
      }
      const permit = await this.#lane.enter();
      const run = this.#nextRun();
      const slot = run?.take(clock.now());
      if (run !== undefined && slot !== undefined) await this.#begin(run, slot, permit);
      else giveUp(permit);
    }
  }

  #msUntilReady(): number {
    const now = this.#settings.clock.now();
    const times = this.#eligible().map((run) => Math.min(run.readyAt, run.hedgeAt));
    const readyAt = Math.min(Infinity, ...times);
    return Math.max(0, readyAt - now, this.#pausedUntil - now);
  }

  /** The source with a page that was not served for longest; else one with a late page. */
  #nextRun(): Run | undefined {
    const now = this.#settings.clock.now();
    const runs = this.#eligible();
    const ready = runs.find(({ readyAt }) => readyAt <= now);
    const run = ready ?? runs.find(({ hedgeAt }) => hedgeAt <= now);
    if (run === undefined) return undefined;
    this.#turns.splice(this.#turns.indexOf(run), 1);
    this.#turns.push(run);
    return run;
  }

  /**
   * Sources below an equal share of the permits, and the others only while a permit is left for
   * each of those: a source whose fetches hang cannot use up the permits of others.
   */
  #eligible(): readonly Run[] {
    const { size } = this.#limit;
    const share = Math.max(1, Math.floor(size / this.#sharers));
    const small = this.#turns.filter((run) => run.inFlight < share);
    return size - this.#inFlight > small.length ? this.#turns : small;
  }

  /** Resolves as soon as the fetch has begun, or was refused. */
  #begin(run: Run, slot: Slot, permit: Permit): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    void this.#fetch(run, slot, permit, resolve).finally(resolve);
    return promise;
  }

  async #fetch(run: Run, slot: Slot, permit: Permit, begun: () => void): Promise<void> {
    using _permit = permit;
    const { clock, attemptMsMax } = this.#settings;
    let isBegun = false;
    let isProbe = false;
    this.#inFlight += 1;
    try {
      const answer = await this.#breaker.run(
        async (caller) => {
          // The token comes last: a wait after it would let several fetches begin at once.
          await this.#bucket?.take(1, { signal: caller });
          isBegun = true;
          this.#begun.arrive();
          this.#begun.start(clock.now(), 0);
          isProbe = (this.#breaker.stats?.state ?? 'closed') !== 'closed';
          begun();
          using limit = deadline(clock, attemptMsMax, caller);
          return await untilAborted(run.source.fetch(slot.page, limit.signal), limit.signal);
        },
        { signal: run.signal },
      );
      const { bytes = 0 } = answer;
      this.#pageBytes = Math.max(1, bytes, (this.#pageBytes ?? 0) * pageDecay);
      run.succeed(slot, answer);
    } catch (error) {
      // One time-out in a long tail is no sign of overload; many in a row open the breaker.
      permit.outcome = 'failed';
      permit.isWhole = false;
      if (isBegun && statusOf(error) === 429) {
        this.#throttled += 1;
        this.#bucket?.slow({ retryAfterMs: retryAfterMsOf(error) });
      }
      if (isBegun) run.fail(slot, error, isProbe);
      else this.#refuse(run, slot, error);
    }
    if (isBegun) this.#begun.finish(clock.now(), 'ok', undefined);
    this.#inFlight -= 1;
    this.#room.notify();
  }

  /** Handles a refusal by the breaker or the bucket, which holds for all other pages, too. */
  #refuse(run: Run, slot: Slot, error: unknown): void {
    run.refuse(slot);
    if (run.signal.aborted) return;
    if (field(error, 'retryable') !== true) run.end('failed', error);
    this.#pausedUntil = this.#settings.clock.now() + (retryAfterMsOf(error) ?? pauseMs);
  }
}

/** Gives back a permit that was not used. */
function giveUp(permit: Permit): void {
  permit.outcome = 'aborted';
  permit.isWhole = false;
  permit[Symbol.dispose]();
}
