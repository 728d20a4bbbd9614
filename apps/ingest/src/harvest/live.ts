import { deadline, type HarvestPage } from 'spillway';
import type { TradePosition } from '../connectors/connector.ts';
import type { FeedForm } from '../connectors/feed-form.ts';
import { itemsOf, type TradePage } from '../connectors/page.ts';
import { readRawLines } from '../files/raw-file.ts';
import type { Ingest } from '../open.ts';
import { type Feed, type FeedStats, sleep } from './feed.ts';
import type { Harvester } from './harvester.ts';
import type { FeedProof, ProductGeneration } from './ledger.ts';

export interface LiveTradesOptions
  extends Pick<Ingest, 'connector' | 'guard' | 'ledger' | 'folder' | 'clock'> {
  readonly feed: Feed;
  readonly products: readonly string[];
  /** A harvester of `liveConnector`. */
  readonly harvester: Harvester;
  /** Called with a description of a product's first trade that differs from REST. */
  readonly onContradiction?: ((message: string) => void) | undefined;
  /** Period of committing trades of the feed, in ms. @default 700 */
  readonly commitMs?: number | undefined;
  /** Period of comparing the feed with the REST API, in ms. @default 30_000 */
  readonly compareMs?: number | undefined;
  /** Time after which a REST round no longer holds up the feed, in ms. @default 5,000 */
  readonly roundMs?: number | undefined;
  /** Time to compare the remaining trades at the end, in ms. @default 5,000 */
  readonly finishMs?: number | undefined;
}

export interface LiveStats extends FeedStats {
  /** Trades that REST has confirmed. */
  readonly compared: number;
  /** Trades that REST has not, or has with other content. */
  readonly contradicted: number;
  /** Description of the first of these. */
  readonly contradiction: string | undefined;
  /** Committed trades of the feed that are not compared yet. */
  readonly uncompared: number;
  /** Products whose trades come from the feed now. */
  readonly products: readonly string[];
}

/** The knowledge of this process about one product. */
interface ProductState {
  /** The first id that is not committed. */
  nextId: number;
  /** True once the checkpoint was read, which tells what earlier processes left to compare. */
  isLoaded: boolean;
  /** Ids committed from the feed and not compared yet: `compareFrom` to below `compareTo`. */
  compareFrom: number;
  compareTo: number;
  /** From this id on, trades of the feed were committed by this process. */
  ownFrom: number;
  /** UNIX time at which the last REST round began; -Infinity before the first. */
  askedAt: number;
  /** UNIX time at which the last complete REST round began. */
  coveredAt: number;
  comparedAt: number;
  isAsking: boolean;
  /** True if the last round left something to fetch. */
  isLate: boolean;
  isDistrusted: boolean;
}

/** Period of REST rounds while the feed has a hole, in ms. */
const holeMs = 1_000;
/** Pages of one comparison. */
const pagesMax = 10;

/**
 * Commits the trades of a feed to the ledger. They are committed like pages of the REST API, as
 * long as each id follows the one before. The REST API is asked after a new subscription, at a
 * hole, and periodically: it fills holes, and trades of the feed are compared with it. A product on
 * which the two differ is harvested by REST only.
 */
export class LiveTrades {
  readonly #options: LiveTradesOptions;
  readonly #states: ReadonlyMap<string, ProductState>;
  #committing: Promise<unknown> = Promise.resolve();
  #compared = 0;
  #contradicted = 0;
  #contradiction: string | undefined;

  constructor(options: LiveTradesOptions) {
    this.#options = options;
    const state = (): ProductState => ({
      nextId: -1,
      isLoaded: false,
      compareFrom: 0,
      compareTo: 0,
      ownFrom: Infinity,
      askedAt: -Infinity,
      coveredAt: -Infinity,
      comparedAt: options.clock.now(),
      isAsking: false,
      isLate: false,
      isDistrusted: false,
    });
    this.#states = new Map(options.products.map((product) => [product, state()]));
  }

  get stats(): LiveStats {
    return {
      ...this.#options.feed.stats,
      compared: this.#compared,
      contradicted: this.#contradicted,
      contradiction: this.#contradiction,
      uncompared: [...this.#states.values()].reduce((sum, { compareFrom, compareTo }) => {
        return sum + compareTo - compareFrom;
      }, 0),
      products: this.#options.products.filter((product) => this.#isLive(product)),
    };
  }

  get #form(): FeedForm {
    return this.#options.connector.feed as FeedForm;
  }

  get harvester(): Harvester {
    return this.#options.harvester;
  }

  /** Receives and commits trades until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { feed, clock, commitMs = 700 } = this.#options;
    const commit = async (): Promise<void> => {
      while (!signal.aborted) {
        this.#committing = this.#commit(signal);
        await this.#committing;
        await sleep(clock, commitMs, signal);
      }
    };
    await Promise.all([feed.run(signal), commit()]);
  }

  /**
   * Calls `round` with the products that need the REST API now. Products that are far behind come
   * last, so that the others do not wait for them.
   */
  async ask(
    round: (products: readonly string[]) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    const fresh = this.#options.products.filter((product) => !this.#stateOf(product).isLoaded);
    await Promise.all(fresh.map((product) => this.#load(product, signal)));
    const due = this.#options.products.filter((product) => this.#isDue(product));
    for (const isLate of [false, true]) {
      const group = due.filter((product) => this.#stateOf(product).isLate === isLate);
      if (group.length > 0) await this.#ask(group, round);
    }
  }

  async #ask(
    products: readonly string[],
    round: (products: readonly string[]) => Promise<void>,
  ): Promise<void> {
    const states = products.map((product) => this.#stateOf(product));
    const now = this.#options.clock.now();
    for (const state of states) {
      state.isAsking = true;
      state.askedAt = now;
    }
    try {
      await this.#committing;
      await round(products);
    } finally {
      for (const state of states) state.isAsking = false;
    }
  }

  /** Notes how far a REST round has come with a product. */
  note(product: string, nextId: number, isDone: boolean): void {
    const state = this.#stateOf(product);
    state.nextId = Math.max(state.nextId, nextId);
    state.isLate = !isDone;
    if (isDone) {
      state.coveredAt = state.askedAt;
      this.#options.feed.doubt(product, state.nextId);
    }
    if (state.compareFrom === state.compareTo) this.#options.feed.forget(product, state.nextId);
  }

  /** UNIX time in ms up to which a product's trades of the feed are committed. */
  committedTo(product: string): number {
    const { feed } = this.#options;
    const heardAt = feed.heardAt(product, this.#stateOf(product).nextId);
    return heardAt ?? feed.stats.lastMessageAt ?? -Infinity;
  }

  /** Compares trades of the feed with the REST API if a comparison is due. */
  async compare(product: string, signal: AbortSignal): Promise<void> {
    const { connector, clock, compareMs = 30_000 } = this.#options;
    const state = this.#stateOf(product);
    const count = state.compareTo - state.compareFrom;
    const isDue = clock.now() - state.comparedAt >= compareMs;
    if (count >= connector.pageSize || (isDue && count > 0)) await this.#compare(product, signal);
  }

  /** Compares the remaining trades when everything else has stopped, for `finishMs` at most. */
  async finish(): Promise<void> {
    const { clock, finishMs = 5_000 } = this.#options;
    using limit = deadline(clock, finishMs);
    const left = this.#options.products.filter((product) => {
      const { compareFrom, compareTo } = this.#stateOf(product);
      return compareFrom < compareTo;
    });
    // The checkpoint keeps the ids that cannot be compared now.
    await Promise.all(left.map((one) => this.#compare(one, limit.signal).catch(() => {})));
  }

  #stateOf(product: string): ProductState {
    return this.#states.get(product) as ProductState;
  }

  /** True if the feed continues the ledger without a known hole. */
  #isLive(product: string): boolean {
    const { feed } = this.#options;
    const { nextId, coveredAt, isDistrusted } = this.#stateOf(product);
    const since = feed.subscribedAt(product);
    if (since === undefined || isDistrusted || coveredAt < since) return false;
    return feed.newest(product) < nextId || feed.runAt(product, nextId, 1) > 0;
  }

  #isDue(product: string): boolean {
    const { feed, clock, connector, compareMs = 30_000 } = this.#options;
    const { askedAt, compareFrom, compareTo } = this.#stateOf(product);
    if ((feed.subscribedAt(product) ?? -Infinity) > askedAt) return true;
    const isFull = compareTo - compareFrom >= connector.pageSize;
    const everyMs = isFull || !this.#isLive(product) ? holeMs : compareMs;
    return clock.now() - askedAt >= everyMs;
  }

  /**
   * Commits trades that continue the ledger. A product in a REST round is left out, since both need
   * its lease, unless the round takes long: then its requests hang, and it mostly has no lease.
   */
  async #commit(signal: AbortSignal): Promise<void> {
    const { feed, products, harvester, clock, roundMs = 5_000 } = this.#options;
    const ready = products.filter((product) => {
      const { isAsking, askedAt, isDistrusted, nextId } = this.#stateOf(product);
      const isFree = !isAsking || clock.now() - askedAt > roundMs;
      return isFree && !isDistrusted && nextId >= 0 && feed.runAt(product, nextId, 1) > 0;
    });
    if (ready.length === 0) return;
    await harvester.round(ready, signal).catch(() => {});
    const outcomes = new Map(harvester.outcomes.map((one) => [one.product, one]));
    for (const product of ready) {
      const state = this.#stateOf(product);
      const { nextId = -1, status } = outcomes.get(product) ?? {};
      // The next REST round finds out how far the ledger is.
      if (status === 'failed') state.coveredAt = -Infinity;
      if (nextId <= state.nextId) continue;
      if (state.compareFrom === state.compareTo) state.compareFrom = state.nextId;
      if (state.ownFrom === Infinity) state.ownFrom = state.nextId;
      state.compareTo = nextId;
      state.nextId = nextId;
    }
  }

  /** Reads from the checkpoint which trades of the feed are not compared yet. */
  async #load(product: string, signal: AbortSignal): Promise<ProductGeneration> {
    const { ledger, onContradiction } = this.#options;
    const of = await ledger.current(product, signal);
    const { feed } = (await ledger.checkpoint(of, signal)) ?? {};
    const state = this.#stateOf(product);
    const { from = 0, to = 0, contradicted = 0, contradiction } = feed ?? {};
    // Trades committed by another process are compared as they are in the raw files.
    if (to !== state.compareTo) state.ownFrom = Math.max(to, state.nextId);
    state.compareFrom = from;
    state.compareTo = to;
    if (state.isLoaded) return of;
    state.isLoaded = true;
    if (from < to) state.comparedAt = -Infinity;
    if (contradicted === 0) return of;
    state.isDistrusted = true;
    this.#contradicted += contradicted;
    this.#contradiction ??= contradiction ?? undefined;
    onContradiction?.(contradiction ?? product);
    return of;
  }

  async #compare(product: string, signal: AbortSignal): Promise<void> {
    const { connector, feed, ledger, clock } = this.#options;
    const state = this.#stateOf(product);
    state.comparedAt = clock.now();
    const of = await this.#load(product, signal);
    const { compareFrom, compareTo, ownFrom } = state;
    const end = Math.min(compareTo, compareFrom + pagesMax * connector.pageSize);
    const buffered = feed.page(product, compareFrom, end);
    const isHere = compareFrom >= ownFrom && buffered.ids.length === end - compareFrom;
    const ours = isHere
      ? tradesOf(buffered)
      : await this.#storedTrades(of, compareFrom, end, signal);
    while (state.compareFrom < end) {
      const from = state.compareFrom;
      const to = Math.min(end, from + connector.pageSize);
      const page = ours.filter(([id]) => id >= from && id < to);
      const compared = await this.#comparePage(product, page, { from, to }, signal);
      if (compared.to === from) return;
      await ledger.noteCompared(of, compared, signal);
      state.compareFrom = compared.to;
      feed.forget(product, compared.to);
    }
  }

  /** Reads the trades of a range of ids from the raw files. */
  async #storedTrades(
    of: ProductGeneration,
    from: number,
    to: number,
    signal: AbortSignal,
  ): Promise<readonly (readonly [number, Trade])[]> {
    const { ledger, folder } = this.#options;
    const entries = await ledger.entries(of, { signal });
    const trades: [number, Trade][] = [];
    for (const { file } of entries.filter((one) => one.lastId >= from && one.firstId < to)) {
      for (const text of await readRawLines(folder, file, signal)) {
        const value: unknown = JSON.parse(text);
        const { id, us } = this.#form.line(value);
        if (id >= from && id < to) trades.push([id, { timeUs: Number(us), value }]);
      }
    }
    return trades.sort(([a], [b]) => a - b);
  }

  /**
   * Compares trades of the feed with a page of the REST API, up to the newest trade of the page.
   * REST may be behind the feed, so later trades are left for the next comparison.
   */
  async #comparePage(
    product: string,
    ours: readonly (readonly [number, Trade])[],
    { from, to }: { readonly from: number; readonly to: number },
    signal: AbortSignal,
  ): Promise<FeedProof> {
    const { connector, guard } = this.#options;
    const nothing = { contradicted: 0, contradiction: null };
    if (ours.length === 0) return { from, to, ...nothing };
    const firstUs = Math.min(...ours.map(([, { timeUs }]) => timeUs));
    const cursor = { id: from, since: String(BigInt(firstUs - 2) * 1000n), seen: [] };
    // Includes ids after those compared: they show how far the REST API is.
    const range = {
      from: connector.hasDenseIds ? from : cursor,
      to: from + connector.pageSize,
    };
    const source = connector.source(product, range);
    const page = source.pageAt(range.from) as HarvestPage<TradePosition>;
    const { rows } = await guard((caller) => source.fetch(page, caller), signal);
    const theirs = new Map(rows.flatMap(tradesOf));
    const upTo = Math.max(from, Math.min(to, Math.max(...theirs.keys(), -1) + 1));
    const differences = ours
      .filter(([id, trade]) => id < upTo && !this.#isSame(trade, theirs.get(id)))
      .map(([id, trade]) => differenceOf(product, id, trade, theirs.get(id)));
    const [contradiction = null] = differences;
    if (contradiction !== null) this.#distrust(product, contradiction, differences.length);
    this.#compared += ours.filter(([id]) => id < upTo).length - differences.length;
    return { from, to: upTo, contradicted: differences.length, contradiction };
  }

  #isSame(ours: Trade, theirs: Trade | undefined): boolean {
    return (
      theirs !== undefined &&
      Math.abs(ours.timeUs - theirs.timeUs) <= 1 &&
      this.#form.facts(ours.value) === this.#form.facts(theirs.value)
    );
  }

  #distrust(product: string, contradiction: string, count: number): void {
    const state = this.#stateOf(product);
    this.#contradiction ??= contradiction;
    this.#contradicted += count;
    if (!state.isDistrusted) this.#options.onContradiction?.(contradiction);
    state.isDistrusted = true;
  }
}

function differenceOf(product: string, id: number, ours: Trade, theirs: Trade | undefined): string {
  const told = theirs === undefined ? 'does not have it' : `says ${JSON.stringify(theirs.value)}`;
  const message = `${product}: trade ${id}: the feed said ${JSON.stringify(ours.value)}`;
  return `${message}, the REST API ${told}`;
}

interface Trade {
  readonly timeUs: number;
  readonly value: unknown;
}

function tradesOf(page: TradePage): readonly (readonly [number, Trade])[] {
  return itemsOf(page).map(({ id, us, line }) => {
    return [id, { timeUs: Number(us), value: JSON.parse(line) }];
  });
}
