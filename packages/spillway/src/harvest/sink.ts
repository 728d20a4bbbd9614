import { SpillwayError } from '../base/errors.ts';
import type { Json } from '../base/json.ts';
import { fenced } from '../shared/lease.ts';
import type { Store, StoreChange } from '../store/store.ts';

/** A part of the range that was passed over, to be asked for again. */
export interface HarvestGap<Position> {
  readonly from: Position;
  readonly to: Position;
  /** Why it is missing. */
  readonly reason: string;
}

/** How far a source has been harvested: what is stored with each batch. */
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
  /** Where the page after it begins. */
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

/** Where the rows go. */
export interface HarvestSink<Row, Position extends Json = number> {
  /** The checkpoint that was committed last; undefined if none was. */
  load(source: string, signal: AbortSignal): Promise<HarvestCheckpoint<Position> | undefined>;
  /**
   * Makes the rows and the checkpoint durable in one transaction, or changes nothing. It rejects
   * when a newer lease was given out, or when the stored checkpoint is not the one before this. As
   * answers get lost, it may come again: what is stored already is not stored twice.
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
