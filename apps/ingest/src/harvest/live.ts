import type { Clock, HarvestPage, HarvestSource, Task } from 'spillway';
import { type Connector, type Cursor, idOf, type TradePosition } from '../connectors/connector.ts';
import type { FeedForm } from '../connectors/feed-form.ts';
import type { TradePage } from '../connectors/trade-page.ts';
import { type Feed, type FeedStats, sleep } from './feed.ts';
import type { Harvester } from './harvester.ts';

export interface LiveTradesOptions {
  readonly feed: Feed;
  readonly form: FeedForm;
  /** The REST API. */
  readonly connector: Connector;
  /** A harvester of {@link liveConnector}. */
  readonly harvester: Harvester;
  /** Runs a request at the shared rate, behind the shared breaker. */
  readonly guard: <T>(request: Task<T>, signal: AbortSignal) => Promise<T>;
  readonly products: readonly string[];
  /** From one commit of the trades that came by the feed to the next, in ms. @default 700 */
  readonly commitMs?: number | undefined;
  /** From one comparison of the feed with the REST API to the next, in ms. @default 30_000 */
  readonly compareMs?: number | undefined;
  readonly clock: Clock;
}

export interface LiveStats extends FeedStats {
  /** Trades that the REST API has told too, and with the same content. */
  readonly compared: number;
  /** Trades that the REST API told otherwise, or not at all. */
  readonly contradicted: number;
  /** The first of these, in words. */
  readonly contradiction: string | undefined;
  /** Products whose trades come by the feed now. */
  readonly products: readonly string[];
}

/** The position of a product, as far as this process knows. */
interface ProductState {
  /** The first id that is not committed. */
  nextId: number;
  /** The first id committed by the feed that was not compared yet; undefined for none. */
  compareFrom: number | undefined;
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
/** Trades so far back may still come when pages are by time, in microseconds. */
const backUs = 1_000_000;
const seenMax = 2_000;

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
      compareFrom: undefined,
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
      products: this.#options.products.filter((product) => this.#isLive(product)),
    };
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
  async ask(round: (products: readonly string[]) => Promise<void>): Promise<void> {
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
    if (isDone) state.coveredAt = state.askedAt;
    if (state.compareFrom === undefined) this.#options.feed.forget(product, state.nextId);
  }

  /** Compares what came by the feed with what the REST API tells, where that is due. */
  async compare(product: string, signal: AbortSignal): Promise<void> {
    const { connector, clock, compareMs = 30_000 } = this.#options;
    const state = this.#stateOf(product);
    const { compareFrom, nextId } = state;
    const count = nextId - (compareFrom ?? nextId);
    const isDue = clock.now() - state.comparedAt >= compareMs;
    if (count < connector.pageSize && !(isDue && count > 0)) return;
    state.comparedAt = clock.now();
    let from = compareFrom as number;
    for (let pages = 0; pages < pagesMax && from < nextId; pages += 1) {
      const next = await this.#comparePage(product, from, nextId, signal);
      if (next === from) return;
      from = next;
      state.compareFrom = from < nextId ? from : undefined;
      this.#options.feed.forget(product, from);
    }
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
    const { askedAt, compareFrom, nextId } = this.#stateOf(product);
    if ((feed.subscribedAt(product) ?? -Infinity) > askedAt) return true;
    const isFull = nextId - (compareFrom ?? nextId) >= connector.pageSize;
    const everyMs = isFull || !this.#isLive(product) ? holeMs : compareMs;
    return clock.now() - askedAt >= everyMs;
  }

  /** Commits what continues the ledger, of each product that the REST API is not asked for now. */
  async #commit(signal: AbortSignal): Promise<void> {
    const { feed, products, harvester } = this.#options;
    const ready = products.filter((product) => {
      const { isAsking, isDistrusted, nextId } = this.#stateOf(product);
      return !isAsking && !isDistrusted && nextId >= 0 && feed.runAt(product, nextId, 1) > 0;
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
      state.compareFrom ??= state.nextId;
      state.nextId = nextId;
    }
  }

  /** Compares one page of the REST API; gives the id after it. */
  async #comparePage(
    product: string,
    from: number,
    to: number,
    signal: AbortSignal,
  ): Promise<number> {
    const { feed, connector, guard } = this.#options;
    const ours = feed.page(product, from, Math.min(to, from + connector.pageSize));
    const end = Math.min(to, from + connector.pageSize);
    if (ours.ids.length === 0) return end;
    const firstUs = ours.timesUs.reduce((least, us) => (us < least ? us : least));
    const cursor = { id: from, since: String((firstUs - 2n) * 1000n), seen: [] };
    const range = { from: connector.hasDenseIds ? from : cursor, to: end };
    const source = connector.source(product, range);
    const page = source.pageAt(range.from) as HarvestPage<TradePosition>;
    const { rows } = await guard((caller) => source.fetch(page, caller), signal);
    const theirs = new Map(rows.flatMap((row) => [...tradesOf(row)]));
    const upTo = connector.hasDenseIds ? end : Math.min(end, Math.max(...theirs.keys(), -1) + 1);
    for (const [id, trade] of tradesOf(ours)) {
      if (id >= upTo) break;
      this.#compareTrade(product, id, trade, theirs.get(id));
    }
    // A page by time that has none of them proves nothing: they are left for the next one.
    return Math.max(upTo, from);
  }

  #compareTrade(product: string, id: number, ours: Trade, theirs: Trade | undefined): void {
    const { form } = this.#options;
    const isSame =
      theirs !== undefined &&
      Math.abs(Number(ours.timeUs - theirs.timeUs)) <= 1 &&
      JSON.stringify(form.facts(ours.value)) === JSON.stringify(form.facts(theirs.value));
    if (isSame) {
      this.#compared += 1;
      return;
    }
    const told = theirs === undefined ? 'does not have it' : `says ${JSON.stringify(theirs.value)}`;
    const message = `${product}: trade ${id}: the feed said ${JSON.stringify(ours.value)}`;
    this.#contradiction ??= `${message}, the REST API ${told}`;
    this.#contradicted += 1;
    this.#stateOf(product).isDistrusted = true;
  }
}

interface Trade {
  readonly timeUs: bigint;
  readonly value: unknown;
}

function* tradesOf({ ids, timesUs, lines }: TradePage): Generator<readonly [number, Trade]> {
  const texts = Buffer.from(lines).toString().split('\n');
  for (const [at, id] of ids.entries()) {
    yield [id, { timeUs: timesUs[at] as bigint, value: JSON.parse(texts[at] as string) }];
  }
}

/** The exchange as its feed shows it: only trades that are here, and that continue a position. */
export function liveConnector(connector: Connector, feed: Feed): Connector {
  const { pageSize, start } = connector;
  return {
    ...connector,
    latest: async (product) => feed.newest(product),
    source(product, { from = start }, name = `${connector.name}/${product}`) {
      const source: HarvestSource<TradePage, TradePosition> = {
        name,
        from,
        pageAt(position) {
          const id = idOf(position);
          const count = feed.runAt(product, id, pageSize);
          if (count === 0) return undefined;
          return { from: position, to: typeof position === 'number' ? id + count : undefined };
        },
        async fetch({ from: position, to }) {
          const id = idOf(position);
          const end = typeof to === 'number' ? to : id + feed.runAt(product, id, pageSize);
          const page = feed.page(product, id, end);
          const rows = page.ids.length === 0 ? [] : [page];
          if (typeof position === 'number') {
            const missing = page.ids.length === end - id ? [] : [{ from: id, to: end }];
            return missing.length === 0 ? { rows } : { rows: [], missing };
          }
          const next = rows.length === 0 ? position : cursorAfter(position, page);
          return { rows, next, isEnd: feed.runAt(product, idOf(next), 1) === 0 };
        },
      };
      return source;
    },
  };
}

/** The cursor with which the REST API is asked for what comes after trades of the feed. */
function cursorAfter({ seen = [], id }: Cursor, page: TradePage): Cursor {
  const lastUs = page.timesUs.reduce((most, us) => (us > most ? us : most), 0n);
  const sinceUs = lastUs - BigInt(backUs);
  const recent = [...page.ids].filter((_, at) => (page.timesUs[at] as bigint) >= sinceUs - 2n);
  // Trades of before that are too old to come again do no harm: they are not asked for.
  const all = recent.length === page.ids.length ? [...seen, ...recent] : recent;
  const next = Math.max(id, (page.ids.at(-1) as number) + 1);
  return { id: next, since: String(sinceUs * 1000n), seen: all.slice(-seenMax) };
}
