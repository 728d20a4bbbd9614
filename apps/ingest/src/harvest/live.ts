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
  /** Called with the first trade of a product that the REST API tells otherwise. */
  readonly onContradiction?: ((message: string) => void) | undefined;
  /** From one commit of the trades that came by the feed to the next, in ms. @default 700 */
  readonly commitMs?: number | undefined;
  /** From one comparison of the feed with the REST API to the next, in ms. @default 30_000 */
  readonly compareMs?: number | undefined;
  /** A round of the REST API that takes longer does not hold up the feed, in ms. @default 5,000 */
  readonly roundMs?: number | undefined;
}

export interface LiveStats extends FeedStats {
  /** Trades that the REST API has told too, and with the same content. */
  readonly compared: number;
  /** Trades that the REST API told otherwise, or not at all. */
  readonly contradicted: number;
  /** The first of these, in words. */
  readonly contradiction: string | undefined;
  /** Trades of the feed that are committed and not compared yet. */
  readonly uncompared: number;
  /** Products whose trades come by the feed now. */
  readonly products: readonly string[];
}

/** The position of a product, as far as this process knows. */
interface ProductState {
  /** The first id that is not committed. */
  nextId: number;
  /** The checkpoint was read: what processes before have left to compare is known. */
  isLoaded: boolean;
  /** Ids committed by the feed and not compared yet, from one to before another. */
  compareFrom: number;
  compareTo: number;
  /** The first id from which on all that came by the feed came to this process. */
  ownFrom: number;
  /** UNIX time at which the last round of the REST API began; -Infinity before the first. */
  askedAt: number;
  /** That of the last one that went well. */
  coveredAt: number;
  comparedAt: number;
  isAsking: boolean;
  /** The last round has not brought it to its end. */
  isLate: boolean;
  isDistrusted: boolean;
}

/** A hole of the feed is asked for at most so often, in ms. */
const holeMs = 1_000;
/** Pages compared in one go. */
const pagesMax = 10;
/** Comparing what is left may take so long when everything has stopped, in ms. */
const finishMs = 5_000;

/**
 * Joins a feed to the ledger. The feed only moves the head: trades are committed as a page of the
 * REST API would be, as long as each id continues the one before. After a new subscription, at a
 * hole, and from time to time, the REST API is asked: it fills what the feed has missed, and what
 * the feed gave is compared with it. A product that the two disagree on is left to the REST API.
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

  /** Receives and commits until the signal aborts. */
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
   * Calls `round` with the products that the REST API is to be asked for now, if there are any:
   * those with a long way to go last, so that nobody waits for them.
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

  /** Notes how far the REST API has brought a product. */
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

  /** UNIX time in ms up to which all that the feed has told of a product is committed. */
  committedTo(product: string): number {
    const { feed } = this.#options;
    const heardAt = feed.heardAt(product, this.#stateOf(product).nextId);
    return heardAt ?? feed.stats.lastMessageAt ?? -Infinity;
  }

  /** Compares what came by the feed with what the REST API tells, where that is due. */
  async compare(product: string, signal: AbortSignal): Promise<void> {
    const { connector, clock, compareMs = 30_000 } = this.#options;
    const state = this.#stateOf(product);
    const count = state.compareTo - state.compareFrom;
    const isDue = clock.now() - state.comparedAt >= compareMs;
    if (count >= connector.pageSize || (isDue && count > 0)) await this.#compare(product, signal);
  }

  /** Compares what is left when everything has stopped, for some seconds at most. */
  async finish(): Promise<void> {
    using limit = deadline(this.#options.clock, finishMs);
    const left = this.#options.products.filter((product) => {
      const { compareFrom, compareTo } = this.#stateOf(product);
      return compareFrom < compareTo;
    });
    // What cannot be compared now stays noted in the checkpoint.
    await Promise.all(left.map((one) => this.#compare(one, limit.signal).catch(() => {})));
  }

  #stateOf(product: string): ProductState {
    return this.#states.get(product) as ProductState;
  }

  /** True if the feed continues the ledger, and nothing is known to be missing. */
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
   * Commits what continues the ledger, of each product that the REST API is not asked for now: the
   * two would meet at its lease. An API that hangs has it in its turn for minutes, mostly without.
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
      // The REST API is asked what has become of it.
      if (status === 'failed') state.coveredAt = -Infinity;
      if (nextId <= state.nextId) continue;
      if (state.compareFrom === state.compareTo) state.compareFrom = state.nextId;
      if (state.ownFrom === Infinity) state.ownFrom = state.nextId;
      state.compareTo = nextId;
      state.nextId = nextId;
    }
  }

  /** Reads from the checkpoint which trades of the feed are still to be compared. */
  async #load(product: string, signal: AbortSignal): Promise<ProductGeneration> {
    const { ledger, onContradiction } = this.#options;
    const of = await ledger.current(product, signal);
    const { feed } = (await ledger.checkpoint(of, signal)) ?? {};
    const state = this.#stateOf(product);
    const { from = 0, to = 0, contradicted = 0, contradiction } = feed ?? {};
    // Another process has committed some: they are compared as they are stored.
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

  /** The trades of a range of ids as the raw files have them. */
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
   * Compares trades of the feed with a page of the REST API, up to the newest trade in that: the
   * REST API may be behind the feed, and what it does not have yet is left for the next time.
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
    // Also ids after those compared: by them it is known that the REST API has come so far.
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
