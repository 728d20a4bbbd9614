import { type Clock, Gate, type Part, Pool, SpillwayError } from 'spillway';
import { fleetError } from '../errors.ts';
import type { Entry } from './action-filter.ts';

export interface LogSearchOptions {
  readonly clock: Clock;
}

/** The part of a query that the database answers, and the part with regular expressions. */
export interface SplitQuery {
  readonly plain: unknown;
  /** Undefined if there are none. */
  readonly rest: Entry | undefined;
}

/** Gives entries in pages, the newest first; an empty page is the last one. */
export type NextPage = () => Promise<readonly Entry[]>;

type Searcher = Pool<typeof import('./log-search-worker.ts')>;

const foundMax = 200;
/** Entries that are looked through for one query: the newest so many. */
const entriesMax = 100_000;
/** How long the expressions may take with one page: good ones need a millisecond. */
const pageMsMax = 2_000;
/** What a thread is ended with by an expression that never ends, or that fills its memory. */
const endless: readonly string[] = ['DEADLINE', 'WORKER_LOST'];
const depthMax = 20;
const waitingMax = 64;

/**
 * Looks through the log with regular expressions of strangers. They run on a thread of their own,
 * which is ended when one takes too long: some would never come to an end.
 */
export class LogSearch implements Part {
  readonly name = 'log search';
  readonly #options: LogSearchOptions;
  /** One page at a time, so that nobody's time is spent waiting for another's. */
  readonly #gate = new Gate({ limit: 1, queueMax: waitingMax });
  #opening: Promise<Searcher> | undefined;

  constructor(options: LogSearchOptions) {
    this.#options = options;
  }

  async close(): Promise<void> {
    const pool = await this.#opening?.catch(() => undefined);
    await pool?.[Symbol.asyncDispose]();
  }

  /** The newest entries that the query matches; throws `REQUEST_REFUSED` for what is no query. */
  async search(query: Entry, next: NextPage, signal?: AbortSignal): Promise<Entry[]> {
    const found: Entry[] = [];
    for (let seen = 0; seen < entriesMax; ) {
      const page = await next();
      if (page.length === 0) break;
      seen += page.length;
      const matches = await this.#matching(query, page, signal);
      found.push(...page.filter((_, at) => matches[at]));
      if (found.length >= foundMax) break;
    }
    return found.slice(0, foundMax);
  }

  async #matching(query: Entry, entries: readonly Entry[], signal?: AbortSignal) {
    using _permit = await this.#gate.enter({ signal });
    try {
      // Nobody may ever ask, so that the thread is started for the first one who does.
      this.#opening ??= this.#open();
      const pool = await this.#opening;
      return await pool.run('matching', { query, entries }, signal && { signal });
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof SpillwayError && !endless.includes(error.code)) throw error;
      throw fleetError('REQUEST_REFUSED', 'query: cannot be done', { cause: error });
    }
  }

  #open(): Promise<Searcher> {
    const opening: Promise<Searcher> = Pool.open({
      module: new URL('./log-search-worker.ts', import.meta.url),
      workers: 1,
      queueMax: 1,
      deadlineMs: pageMsMax,
      killAfterMs: 0,
      resourceLimits: { maxOldGenerationSizeMb: 64 },
      clock: this.#options.clock,
    });
    opening.catch(() => {
      this.#opening = undefined;
    });
    return opening;
  }
}

/** Puts what has a regular expression anywhere apart. */
export function splitQuery(query: unknown): SplitQuery {
  const isObject = typeof query === 'object' && query !== null && !Array.isArray(query);
  if (!isObject || !hasExpression(query, 0)) return { plain: query, rest: undefined };
  const entries = Object.entries(query);
  return {
    plain: Object.fromEntries(entries.filter(([, value]) => !hasExpression(value, 1))),
    rest: Object.fromEntries(entries.filter(([, value]) => hasExpression(value, 1))),
  };
}

function hasExpression(value: unknown, depth: number): boolean {
  if (depth > depthMax) throw fleetError('REQUEST_REFUSED', 'query: too long');
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([key, inner]) => {
    return key === '$regex' || hasExpression(inner, depth + 1);
  });
}
