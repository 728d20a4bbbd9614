import { SpillwayError } from '../base/errors.ts';
import type { Json } from '../base/json.ts';
import { callback, integer, oneOf, or, settle, word } from '../base/options.ts';
import { fenced } from '../shared/lease.ts';
import type { Store, StoreChange } from '../store/store.ts';

/** The page that one fetch asks for. */
export interface HarvestPage<Position> {
  readonly from: Position;
  /** Start of the next page; undefined when only the answer tells. */
  readonly to: Position | undefined;
}

/** The answer of one fetch. */
export interface HarvestAnswer<Row, Position> {
  /** In the order of the source, each once. */
  readonly rows: readonly Row[];
  /** Start of the next page, if `to` of this one was undefined; undefined at the end of all. */
  readonly next?: Position | undefined;
  /** No page follows for now: a later harvest goes on at `next`. @default false */
  readonly isEnd?: boolean | undefined;
  /** Parts of the page that the other side does not have; they go into the gap ledger. */
  readonly missing?: readonly { readonly from: Position; readonly to: Position }[] | undefined;
  /** Bytes of it in memory, for a harvest with `windowBytesMax`. @default 0 */
  readonly bytes?: number | undefined;
}

/** One ordered range of rows, fetched page by page. */
export interface HarvestSource<Row, Position extends Json = number> {
  /** Names its lease and its checkpoint; once in a harvest. */
  readonly name: string;
  /** Start of the range, when nothing has been committed yet. */
  readonly from: Position;
  /** The page that begins there; undefined at the end. */
  pageAt(position: Position): HarvestPage<Position> | undefined;
  /**
   * Rejects when the signal aborts. An error with a status from 400 to 499 other than 408 and 429,
   * or with `retryable: false`, is final; after any other the page is fetched again later.
   */
  fetch(page: HarvestPage<Position>, signal: AbortSignal): Promise<HarvestAnswer<Row, Position>>;
  /** The number of pages that begin there or later, if that can be known. */
  pagesLeft?(position: Position): number;
}

export interface RangeSourceOptions<Row> {
  /** Names its lease and its checkpoint. */
  readonly name: string;
  /** The first id; a safe integer. */
  readonly from: number;
  /** One above the last id; from `from`. */
  readonly to: number;
  /** Ids in a page; an integer from 1. */
  readonly pageSize: number;
  /** The id of a row. */
  readonly idOf: (row: Row) => number;
  /** Gets the rows with `page.from <= id < page.to`, in any order; others are left out. */
  readonly fetch: (
    page: { readonly from: number; readonly to: number },
    signal: AbortSignal,
  ) => Promise<readonly Row[]>;
  /**
   * The meaning of a page with too few rows: a gap, a failed attempt, or nothing, for a
   * source whose ids have holes. @default 'gap'
   */
  readonly short?: 'gap' | 'retry' | 'accept' | undefined;
}

/** Ids from `from` to `to`: all pages are known at once, so they can be fetched side by side. */
export function rangeSource<Row>(options: RangeSourceOptions<Row>): HarvestSource<Row> {
  const { name, from, to, pageSize, idOf, fetch, short } = settle('rangeSource', options, {
    name: word,
    from: integer(Number.MIN_SAFE_INTEGER),
    to: integer(Object(options).from),
    pageSize: integer(1),
    idOf: callback,
    fetch: callback,
    short: or(oneOf('gap', 'retry', 'accept'), 'gap'),
  });
  return {
    name,
    from,
    pageAt: (at) => (at < to ? { from: at, to: Math.min(at + pageSize, to) } : undefined),
    pagesLeft: (at) => Math.max(0, Math.ceil((to - at) / pageSize)),
    async fetch(page, signal) {
      const range = { from: page.from, to: page.to as number };
      const found = await fetch(range, signal);
      const rows = inRange(found, idOf, range);
      if (short === 'accept' || rows.length === range.to - range.from) return { rows };
      if (short === 'gap') return { rows, missing: missingIds(rows, idOf, range) };
      const message = `${name}: ${rows.length} of the ids from ${range.from} to ${range.to - 1}`;
      throw new SpillwayError('HARVEST_SHORT', message);
    },
  };
}

/** The rows of the range, by id, each id once: the first one found. */
function inRange<Row>(
  found: readonly Row[],
  idOf: (row: Row) => number,
  { from, to }: { readonly from: number; readonly to: number },
): readonly Row[] {
  const inside = found.filter((row) => idOf(row) >= from && idOf(row) < to);
  inside.sort((a, b) => idOf(a) - idOf(b));
  return inside.filter((row, at) => at === 0 || idOf(row) !== idOf(inside[at - 1] as Row));
}

function missingIds<Row>(
  rows: readonly Row[],
  idOf: (row: Row) => number,
  range: { readonly from: number; readonly to: number },
): { readonly from: number; readonly to: number }[] {
  const missing: { readonly from: number; readonly to: number }[] = [];
  let next = range.from;
  for (const id of [...rows.map(idOf), range.to]) {
    if (id > next) missing.push({ from: next, to: id });
    next = id + 1;
  }
  return missing;
}

/** A part of the range that was passed over, to be asked for again. */
export interface HarvestGap<Position> {
  readonly from: Position;
  readonly to: Position;
  /** The reason why it is missing. */
  readonly reason: string;
}

/** The progress of a source, stored with each batch. */
export interface HarvestCheckpoint<Position> {
  readonly source: string;
  /** Every page before it is committed, or stands in `gaps`; never goes back. */
  readonly position: Position;
  /** No page will ever follow. */
  readonly isEnd: boolean;
  /** In the order they were found. */
  readonly gaps: readonly HarvestGap<Position>[];
  /** Grows by one with each commit. */
  readonly commits: number;
  /** Rows committed so far. */
  readonly rows: number;
  /** The fencing number of the lease under which it was made. */
  readonly fence: number;
}

/** Neighbouring pages, in order; or one page that fills a gap. */
export interface HarvestBatch<Row, Position> {
  readonly source: string;
  readonly from: Position;
  /** Start of the page after it. */
  readonly to: Position;
  /** It fills a gap and moves no position. */
  readonly isGap: boolean;
  /** The pages that have rows. */
  readonly pages: readonly { readonly from: Position; readonly rows: readonly Row[] }[];
}

/** The lease under which a commit is made: what {@link fenced} takes. */
export interface HarvestFence {
  readonly name: string;
  readonly fence: number;
}

/** The place where rows and checkpoints are committed. */
export interface HarvestSink<Row, Position extends Json = number> {
  /** The checkpoint that was committed last; undefined if none was. */
  load(source: string, signal: AbortSignal): Promise<HarvestCheckpoint<Position> | undefined>;
  /**
   * Makes the rows and the checkpoint durable in one transaction, or changes nothing. It rejects
   * if there is a newer lease, or if the stored checkpoint is not the one before this. It may be
   * called again after a lost answer, and must not store the same rows twice.
   */
  commit(
    batch: HarvestBatch<Row, Position>,
    checkpoint: HarvestCheckpoint<Position>,
    fence: HarvestFence,
    signal: AbortSignal,
  ): Promise<void>;
}

/** A sink in a {@link Store}: the rows become changes, and go with the checkpoint in one commit. */
export function storeSink<Row, Position extends Json = number>(
  store: Store,
  changesOf: (batch: HarvestBatch<Row, Position>) => readonly StoreChange[],
): HarvestSink<Row, Position> {
  const nameOf = (source: string): string => `harvest/${source}`;
  return {
    async load(source, signal) {
      const { records } = await store.read([nameOf(source)], { signal });
      return records[0]?.value as HarvestCheckpoint<Position> | undefined;
    },
    async commit(batch, checkpoint, fence, signal) {
      const name = nameOf(batch.source);
      const { commits } = checkpoint;
      // Refused once, it may be an earlier attempt of the same commit that has arrived meanwhile.
      for (let looks = 0; looks < 2; looks += 1) {
        const { records } = await store.read([name], { signal });
        const stored = records[0]?.value as HarvestCheckpoint<Position> | undefined;
        if (stored?.commits === commits && stored.fence === checkpoint.fence) return;
        if ((stored?.commits ?? 0) !== commits - 1) break;
        const value = checkpoint as unknown as Json;
        const change = { name, ifVersion: records[0]?.version ?? 0, value };
        const changes = fenced(fence, [change, ...changesOf(batch)]);
        if ((await store.commit(changes, { signal })) !== undefined) return;
      }
      const message = `${batch.source}: another holder of the lease has taken over`;
      throw new SpillwayError('HARVEST_STALE', message);
    },
  };
}
