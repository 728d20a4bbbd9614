import { randomUUID } from 'node:crypto';
import {
  type BucketStats,
  type Clock,
  Harvest,
  type HarvestOutcome,
  type HarvestSource,
  type HarvestStats,
  type RunOptions,
  type SharedBreaker,
  type SharedBucket,
  SpillwayError,
  type Store,
} from 'spillway';
import { type Connector, idOf, type TradePosition } from '../connectors/connector.ts';
import type { TradePage } from '../connectors/page.ts';
import { ingestError } from '../errors.ts';
import { packedPage, type RawPage } from '../files/raw-file.ts';
import type { Settings } from '../settings.ts';
import { type Context, type ProductCheckpoint, sourceName } from './ledger.ts';
import {
  type ProductOutcome,
  type ProductPlan,
  ProductTally,
  planProduct,
  type Wish,
} from './product.ts';
import { TradeSink } from './trade-sink.ts';

/** The bucket of a process, or one that it shares with others. */
type AnyBucket = Pick<SharedBucket, 'take' | 'slow'> & { readonly stats: BucketStats<string> };

/** Period of reading the pause from the store, where other processes may change it, in ms. */
const pauseReadMs = 5_000;

/** A long pause that an exchange has asked for; it holds for all processes and later runs. */
export class LongPause {
  readonly #store: Store;
  readonly #name: string;
  readonly #clock: Clock;
  readonly #msMax: number;
  /** The last commit of a pause; resolves with false if it failed. */
  #noting: Promise<unknown> = Promise.resolve();
  #readAt = -Infinity;
  /** UNIX time in milliseconds; 0 for none. */
  until = 0;

  /** Pauses of up to `msMax` milliseconds are left to the bucket. */
  constructor(store: Store, name: string, clock: Clock, msMax: number) {
    this.#store = store;
    this.#name = `pause/${name}`;
    this.#clock = clock;
    this.#msMax = msMax;
  }

  /** Reads the pause of an earlier run or of another process. */
  async load(signal?: AbortSignal): Promise<void> {
    this.#readAt = this.#clock.now();
    const noting = this.#noting;
    if ((await noting) === false) return;
    const { now, records } = await this.#store.read([this.#name], { signal });
    // A pause that was noted here meanwhile is newer.
    if (noting !== this.#noting) return;
    const { expiresAt } = records[0] ?? {};
    // By the store's clock: that of the process that noted the pause may be wrong.
    this.until = expiresAt === undefined ? 0 : this.#clock.now() + expiresAt - now;
  }

  /** Writes a long pause to the store; returns false for a short one. */
  note(ms: number): boolean {
    if (ms <= this.#msMax) return false;
    this.until = this.#clock.now() + ms;
    const change = { name: this.#name, value: { until: this.until }, ttlMs: Math.ceil(ms) };
    this.#noting = this.#store.commit([change]).catch(() => false);
    return true;
  }

  /** Throws during a pause. Changes by other processes are read in the background. */
  check(): void {
    if (this.#clock.now() - this.#readAt >= pauseReadMs) void this.load().catch(() => {});
    if (this.until <= this.#clock.now()) return;
    const until = new Date(this.until).toISOString();
    const message = `the exchange has asked for a pause until ${until}`;
    throw ingestError('EXCHANGE_PAUSED', `${message}; "ingest resume" ends it earlier`);
  }

  async end(): Promise<void> {
    await this.settled();
    this.#noting = Promise.resolve();
    this.until = 0;
    await this.#store.commit([{ name: this.#name }]);
  }

  /** Resolves when the last pause is in the store. */
  async settled(): Promise<void> {
    await this.#noting;
  }
}

/** A bucket that counts its tokens, and refuses more than `max` in all. */
export class QuotaBucket implements AnyBucket {
  readonly #bucket: AnyBucket;
  readonly #max: number;
  readonly #pause: LongPause | undefined;
  taken = 0;

  constructor(bucket: AnyBucket, max: number, pause?: LongPause) {
    this.#bucket = bucket;
    this.#max = max;
    this.#pause = pause;
  }

  get stats(): BucketStats<string> {
    return this.#bucket.stats;
  }

  get isSpent(): boolean {
    return this.taken >= this.#max;
  }

  async take(n = 1, options?: RunOptions): Promise<void> {
    this.#pause?.check();
    if (this.taken + n > this.#max) {
      throw ingestError('BUDGET_SPENT', `${this.#max} requests were allowed, and made`);
    }
    this.taken += n;
    try {
      await this.#bucket.take(n, options);
    } catch (error) {
      this.taken -= n;
      throw error;
    }
  }

  slow(told?: { readonly retryAfterMs?: number | undefined }): void {
    if (!this.#pause?.note(told?.retryAfterMs ?? 0)) this.#bucket.slow(told);
  }
}

/** Settings of a harvest; the defaults are those of `Harvest`, and 80 for `waitingMbMax`. */
type Tuning = Partial<
  Pick<Settings, 'mode' | 'workers' | 'chunkConcurrency' | 'gapsMax' | 'waitingMbMax'>
>;

export interface HarvesterOptions extends Context, Tuning {
  readonly connector: Connector;
  readonly bucket: QuotaBucket;
  /** True if the connector reads a feed, whose trades REST has to confirm. @default false */
  readonly isFeed?: boolean | undefined;
  readonly breaker: Pick<SharedBreaker, 'run'> & { readonly stats: { readonly state: string } };
  /** Time that a page may wait for a fuller batch, in ms. @default 5,000 */
  readonly batchMsMax?: number | undefined;
}

export interface HarvestRequest extends Wish {
  readonly products: readonly string[];
  /** Fetches only the gaps of the ledger. @default false */
  readonly fillsGaps?: boolean | undefined;
}

/** Pages of one raw file, at most: a hundred are 13 MB of lines. */
const batchPages = 100;
/**
 * Pages that may wait for an earlier one; packed pages of an exchange take 70 MB then. At 50
 * requests a second 1,500 pages arrive while one is 30 s late. With room for 500 only 73 % of the
 * rate was used (answers in 3 s on average, 2026-11).
 */
const windowMax = 2_000;

/** Brings products up to date, and keeps the outcome of each. */
export class Harvester {
  readonly runId: string = randomUUID();
  readonly #options: HarvesterOptions;
  readonly #request: HarvestRequest;
  readonly #sink: TradeSink;
  readonly #harvest: Harvest<RawPage, TradePosition>;
  readonly #tallies = new Map<string, ProductTally>();

  constructor(options: HarvesterOptions, request: HarvestRequest) {
    const { connector, store, bucket, breaker, mode, clock, random } = options;
    const { workers, chunkConcurrency, leaseMs, batchMsMax = 5_000, gapsMax } = options;
    const { waitingMbMax = 80 } = options;
    this.#options = options;
    this.#request = request;
    this.#sink = new TradeSink(options, this.runId);
    this.#harvest = new Harvest<RawPage, TradePosition>({
      sink: this.#sink,
      store,
      bucket,
      breaker,
      mode,
      leaseMs,
      clock,
      random,
      batchPages,
      batchMsMax,
      windowMax,
      gapsMax,
      fillsGaps: request.fillsGaps,
      windowBytesMax: waitingMbMax * 2 ** 20,
      sourcesMax: workers,
      pagesMax: chunkConcurrency,
      inFlightMax: connector.rate.atOnce,
    });
    for (const product of request.products) this.#tallies.set(product, new ProductTally(product));
  }

  /** Figures of `Harvest` for the current round. */
  get stats(): HarvestStats<TradePosition> {
    return this.#harvest.stats;
  }

  get requests(): number {
    return this.#options.bucket.taken;
  }

  /** Trades committed so far. */
  get trades(): number {
    return this.#sink.trades;
  }

  /** Progress of each product, in the order of the request. */
  get outcomes(): readonly ProductOutcome[] {
    const { connector } = this.#options;
    return [...this.#tallies.values()].map((tally) => {
      const { product, status, generation } = tally.outcome;
      const name = sourceName({ exchange: connector.name, product, generation });
      const checkpoint = this.#sink.checkpoints.get(name);
      if (status === 'running' && checkpoint !== undefined) tally.note(checkpoint);
      return tally.outcome;
    });
  }

  /** Plans a harvest without locking or writing anything. */
  async plan(signal: AbortSignal): Promise<readonly ProductPlan[]> {
    const plans = await Promise.all(
      this.#request.products.map((product) => this.#plan(product, true, signal)),
    );
    return plans.filter((plan) => plan !== undefined);
  }

  /** Runs rounds until no product is behind by more than a page. */
  async run(signal: AbortSignal): Promise<readonly ProductOutcome[]> {
    let products = this.#request.products;
    while (products.length > 0 && !signal.aborted && !this.#options.bucket.isSpent) {
      products = await this.round(products, signal);
    }
    for (const product of products) {
      this.#tallies.get(product)?.end(signal.aborted ? 'interrupted' : 'max_requests');
    }
    return this.outcomes;
  }

  /** Harvests new trades of these products once; returns those that need another round. */
  async round(products: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const plans = new Map<string, ProductPlan>();
    await Promise.all(
      products.map(async (product) => {
        const plan = await this.#plan(product, false, signal);
        if (plan !== undefined) plans.set(plan.name, plan);
      }),
    );
    const sources: HarvestSource<RawPage, TradePosition>[] = [];
    const again: string[] = [];
    for (const plan of plans.values()) {
      const source = this.#request.fillsGaps ? this.#gapSource(plan) : plan.source;
      if (source !== undefined) sources.push(this.#prepared(plan, source));
      else if (await this.#finish(plan, signal)) again.push(plan.product);
    }
    for (const outcome of await this.#harvest.run(sources, { signal })) {
      const plan = plans.get(outcome.source) as ProductPlan;
      if (await this.#settle(plan, outcome, signal)) again.push(plan.product);
    }
    return again;
  }

  async #plan(
    product: string,
    isDry: boolean,
    signal: AbortSignal,
  ): Promise<ProductPlan | undefined> {
    const tally = this.#tallies.get(product) as ProductTally;
    try {
      const plan = await planProduct(product, this.#options, { ...this.#request, isDry }, signal);
      tally.begin(plan);
      return plan;
    } catch (error) {
      if (signal.aborted) tally.end('interrupted');
      else if (Object(error).code === 'BUDGET_SPENT') tally.end('max_requests');
      else tally.fail(error);
      return undefined;
    }
  }

  #prepared(
    plan: ProductPlan,
    source: HarvestSource<TradePage, TradePosition>,
  ): HarvestSource<RawPage, TradePosition> {
    this.#sink.add(plan.name, plan);
    const pageAt = (position: TradePosition) =>
      // After the last permitted request, pages in flight are still delivered.
      this.#options.bucket.isSpent ? undefined : source.pageAt(position);
    const fetch: HarvestSource<RawPage, TradePosition>['fetch'] = async (page, signal) => {
      const answer = await source.fetch(page, signal);
      // Pages by time may have to be sorted by id, so they cannot be packed yet.
      const { hasDenseIds } = this.#options.connector;
      const rows = hasDenseIds ? await Promise.all(answer.rows.map(packedPage)) : answer.rows;
      return { ...answer, rows, bytes: rows.reduce((sum, page) => sum + bytesOf(page), 0) };
    };
    return { ...source, pageAt, fetch };
  }

  #gapSource(plan: ProductPlan): HarvestSource<TradePage, TradePosition> | undefined {
    if (plan.gaps === 0) return undefined;
    const { connector } = this.#options;
    const range = { from: plan.begin, to: plan.from };
    return { ...connector.source(plan.product, range, plan.name), pageAt: () => undefined };
  }

  /** Notes the outcome of a product; true if it needs another round. */
  async #settle(
    plan: ProductPlan,
    outcome: HarvestOutcome<TradePosition>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const tally = this.#tallies.get(plan.product) as ProductTally;
    const checkpoint = this.#sink.checkpoints.get(plan.name);
    if (checkpoint !== undefined) tally.note(checkpoint);
    const code = outcome.error instanceof SpillwayError ? outcome.error.code : undefined;
    // Another process has finished a full refresh: the next round continues its result.
    if (code === 'GENERATION_REPLACED') return true;
    if (code === 'STORE_UNREACHABLE' && tally.tryAgain()) return true;
    const cause = Object(Object(outcome.error).cause);
    if (['EXCHANGE_PAUSED', 'EXCHANGE_UNREACHABLE'].includes(cause.code)) tally.fail(cause);
    else if (code === 'BUDGET_SPENT') tally.end('max_requests');
    else if (outcome.status === 'stopped') tally.end('interrupted');
    else if (outcome.status === 'skipped') tally.end('locked_by_another_worker');
    // The message of the cause has no JSON of a cursor in it.
    else if (code === 'HARVEST_REFUSED' && plan.isOpen) tally.fail(outcome.error, cause.message);
    else if (outcome.status === 'failed') tally.fail(outcome.error);
    else if (this.#options.bucket.isSpent && tally.outcome.nextId < plan.to)
      tally.end('max_requests');
    else if (this.#request.fillsGaps || plan.pages <= 1) return this.#finish(plan, signal);
    else if (plan.isOpen && tally.outcome.nextId < plan.to) return this.#finish(plan, signal);
    else return true;
    return false;
  }

  /**
   * Ends a product that has nothing left to fetch; a full refresh then replaces the old history.
   * True if the product needs another round.
   */
  async #finish(plan: ProductPlan, signal: AbortSignal): Promise<boolean> {
    const tally = this.#tallies.get(plan.product) as ProductTally;
    const { ledger } = this.#options;
    try {
      const checkpoint = await ledger.checkpoint(plan, signal);
      if (checkpoint !== undefined) tally.note(checkpoint);
      const compare: Parameters<typeof ledger.swap>[1] = (built, before) => {
        // Where only the answers tell the end, fewer records than before are no loss.
        if (!plan.isOpen) compareRefresh(plan, built, before);
      };
      if (this.#request.fullRefresh) await ledger.swap(plan, compare, signal);
      tally.end();
    } catch (error) {
      // The harvest of the old history went on meanwhile and is further.
      if (Object(error).code === 'REFRESH_BEHIND' && tally.tryAgain()) return true;
      tally.fail(error);
    }
    return false;
  }
}

/** Refuses to replace a history by one that ends earlier or has larger gaps. */
function compareRefresh(
  plan: ProductPlan,
  built: ProductCheckpoint,
  before: ProductCheckpoint,
): void {
  const [end, endBefore] = [built, before].map((one) => idOf(one.harvest.position));
  if ((end as number) < (endBefore as number)) {
    const what = `${plan.name} ends before trade ${end}, what it would replace at ${endBefore}`;
    throw ingestError('REFRESH_BEHIND', `${what}; nothing was replaced`);
  }
  const lacks = missing(built.harvest.gaps);
  const lacked = missing(before.harvest.gaps);
  if (lacks <= lacked) return;
  const what = `${plan.name} lacks ${lacks} ids, what it would replace ${lacked}`;
  throw ingestError('REFRESH_SHORT', `${what}; nothing was replaced, run it again`);
}

function missing(
  gaps: readonly { readonly from: TradePosition; readonly to: TradePosition }[],
): number {
  return gaps.reduce((sum, { from, to }) => sum + idOf(to) - idOf(from), 0);
}

function bytesOf(page: RawPage): number {
  return 'packed' in page ? page.packed.length : page.lines.length + 16 * page.ids.length;
}
