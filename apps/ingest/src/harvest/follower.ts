import type { Clock } from 'spillway';
import { sleep } from './feed.ts';
import type { Harvester } from './harvester.ts';
import type { LiveStats, LiveTrades } from './live.ts';
import type { ProductOutcome } from './product.ts';
import type { Transformed, Transformer } from './transformer.ts';

export interface FollowerOptions {
  readonly products: readonly string[];
  /** Fetches new trades from the REST API, in slices. */
  readonly harvester: Harvester;
  /** Fetches the gaps of the ledger again. */
  readonly filler: Harvester;
  readonly transformer: Transformer;
  /** The feed of the exchange. @default none: each round polls the REST API */
  readonly live?: LiveTrades | undefined;
  /** Joins small raw files; called between two rounds. @default does nothing */
  readonly joinRaw?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Called when the table has changed. @default does nothing */
  readonly onTable?: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly clock: Clock;
}

export interface FollowerStats {
  readonly rounds: number;
  readonly trades: number;
  readonly requests: number;
  /** Last change of the table; undefined before the first. */
  readonly transformed: Transformed | undefined;
  /** Messages of the last failures, until the work succeeds again. */
  readonly error: string | undefined;
  readonly products: readonly ProductOutcome[];
  /** UNIX time in ms of the last round that succeeded for any product; undefined before. */
  readonly succeededAt: number | undefined;
  /** UNIX time in ms up to which all products are complete; undefined until it is known. */
  readonly completeTo: number | undefined;
  readonly feed: LiveStats | undefined;
  /** Figures of the current round. */
  readonly harvest?: Harvester['stats'];
}

/** Files that are joined into one. So a trade of a busy day is written three times. */
const joinsFrom = 64;
/** Period of polling the REST API where there is no feed, in ms. */
const pollMs = 2_000;
/** Period of table updates, in ms. */
const transformMs = 15_000;
/** Period of attempts to fill gaps, in ms. */
const fillMs = 600_000;
/** Period of joining raw files, in ms. */
const joinMs = 120_000;
/** Period of looking for the first trades, in ms. */
const firstMs = 500;
/** Period of looking whether a product needs the REST API besides its feed, in ms. */
const feedMs = 250;

/**
 * Keeps products up to date until it is stopped; a round that fails is repeated. Trades that were
 * committed shortly before it stops are put into the table by the next `follow`, `run` or
 * `transform`.
 */
export class Follower {
  readonly #options: FollowerOptions;
  #rounds = 0;
  #transformed: Transformed | undefined;
  readonly #errors = new Map<string, string>();
  #tradesInTable = 0;
  #succeededAt: number | undefined;
  /** By product: UNIX time at which its last complete round began. */
  readonly #doneAt = new Map<string, number>();
  #filledAt: number;
  #joinedAt: number;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#filledAt = options.clock.now();
    this.#joinedAt = options.clock.now();
  }

  get stats(): FollowerStats {
    const { harvester, filler, live } = this.#options;
    return {
      rounds: this.#rounds,
      trades: harvester.trades + filler.trades + (live?.harvester.trades ?? 0),
      requests: harvester.requests,
      transformed: this.#transformed,
      error: [...this.#errors.values()].join('; ') || undefined,
      products: this.#outcomes,
      succeededAt: this.#succeededAt,
      completeTo: this.#completeTo,
      feed: live?.stats,
      harvest: harvester.stats,
    };
  }

  get #completeTo(): number | undefined {
    const { products, live } = this.#options;
    const fed = live?.stats.products ?? [];
    const times = products.map((product) => {
      const askedAt = this.#doneAt.get(product) ?? -Infinity;
      const committedTo = fed.includes(product) ? live?.committedTo(product) : undefined;
      return Math.max(askedAt, committedTo ?? -Infinity);
    });
    const earliest = Math.min(...times);
    return Number.isFinite(earliest) ? earliest : undefined;
  }

  /** The outcome of each product, by the REST API or by the feed, whichever is further. */
  get #outcomes(): readonly ProductOutcome[] {
    const { harvester, live } = this.#options;
    const fed = new Map(live?.harvester.outcomes.map((one) => [one.product, one]));
    return harvester.outcomes.map((asked) => {
      const one = fed.get(asked.product);
      if (one === undefined || one.nextId <= asked.nextId) return asked;
      const { tradesInAll, nextId, toId, gaps } = one;
      return { ...asked, tradesInAll, nextId, toId, gaps };
    });
  }

  /** Harvests and updates the table concurrently: neither waits for the other. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const transforming = async (): Promise<void> => {
      while (!signal.aborted) {
        const startedAt = clock.now();
        await this.#attempt('table', () => this.#transform(signal), signal);
        const everyMs = this.#transformed === undefined ? firstMs : transformMs;
        await sleep(clock, everyMs - (clock.now() - startedAt), signal);
      }
    };
    await Promise.all([this.#harvest(signal), transforming(), this.#options.live?.run(signal)]);
    await this.#options.live?.finish();
  }

  async #harvest(signal: AbortSignal): Promise<void> {
    const { products, live, clock } = this.#options;
    while (!signal.aborted) {
      const startedAt = clock.now();
      let isBehind = false;
      const round = async (due: readonly string[]): Promise<void> => {
        isBehind = await this.#round(due, signal);
        this.#rounds += 1;
      };
      const work = async (): Promise<void> => {
        await (live === undefined ? round(products) : live.ask(round, signal));
        await this.#keepHouse(signal);
      };
      await this.#attempt('harvest', work, signal);
      const everyMs = live === undefined ? pollMs : feedMs;
      await sleep(clock, isBehind ? 0 : everyMs - (clock.now() - startedAt), signal);
    }
  }

  /** Fetches new trades of these products; true if more is left to fetch at once. */
  async #round(products: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { harvester, live, clock } = this.#options;
    const startedAt = clock.now();
    const again = await harvester.round(products, signal);
    const outcomes = harvester.outcomes.filter(({ product }) => products.includes(product));
    const isDone = outcomes.some(({ status }) => status === 'done' || status === 'running');
    if (isDone) this.#succeededAt = clock.now();
    for (const { product, nextId, status } of outcomes) {
      live?.note(product, nextId, status === 'done');
      if (status === 'done') this.#doneAt.set(product, startedAt);
      if (status === 'done' || status === 'running') await live?.compare(product, signal);
    }
    return again.length > 0;
  }

  /** Fills gaps and joins raw files, each when its period has passed. */
  async #keepHouse(signal: AbortSignal): Promise<void> {
    const { products, filler, clock } = this.#options;
    const now = clock.now();
    if (now - this.#filledAt >= fillMs && this.#outcomes.some(({ gaps }) => gaps > 0)) {
      this.#filledAt = now;
      await filler.round(products, signal);
    }
    if (now - this.#joinedAt < joinMs) return;
    this.#joinedAt = now;
    await this.#options.joinRaw?.(signal);
  }

  async #attempt(
    name: 'harvest' | 'table',
    work: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await work();
      this.#errors.delete(name);
    } catch (error) {
      if (signal.aborted) return;
      this.#errors.set(name, error instanceof Error ? error.message : String(error));
    }
  }

  async #transform(signal: AbortSignal): Promise<void> {
    const { transformer, onTable } = this.#options;
    const { trades } = this.stats;
    const isBegun = trades > 0 || this.#rounds > 0;
    if (!isBegun || (this.#transformed !== undefined && trades === this.#tradesInTable)) return;
    const request = { rebuild: false, waits: true, joinsFrom };
    this.#transformed = await transformer.run(request, signal);
    this.#tradesInTable = trades;
    await onTable?.(signal);
  }
}
