import {
  fenced,
  type HarvestBatch,
  type HarvestCheckpoint,
  type HarvestFence,
  type HarvestSink,
  type Json,
  SpillwayError,
} from 'spillway';
import { type Connector, idOf, type TradePosition } from '../connectors/connector.ts';
import { inOrderOfId, type RawFile, type RawPage, writeRawFile } from '../files/raw-file.ts';
import { notCopied, refuseCopied } from './copied-store.ts';
import {
  type Context,
  checkpointRecord,
  type FeedProof,
  type ProductCheckpoint,
  type ProductGeneration,
  ProductLedger,
  readCheckpoint,
} from './ledger.ts';

export interface TradeSinkOptions extends Pick<Context, 'store' | 'folder' | 'ledger' | 'clock'> {
  readonly connector: Pick<Connector, 'address' | 'hasDenseIds'>;
  /** True if the trades come from a feed, and REST has to confirm them. @default false */
  readonly isFeed?: boolean | undefined;
}

/** A source with its product and the beginning of its history. */
export interface SinkSource extends ProductGeneration {
  readonly begin: TradePosition;
}

/**
 * Writes a batch as one raw file, then commits the checkpoint and the line of the ledger that names
 * the file in one fenced transaction. A crash in between leaves an unnamed file, which the command
 * `clean` deletes. The fence of the lease is part of the file's name, so that a process whose lease
 * has expired cannot overwrite a file of the next holder.
 */
export class TradeSink implements HarvestSink<RawPage, TradePosition> {
  readonly #options: TradeSinkOptions;
  readonly #runId: string;
  /** The sources of this run, by name. */
  readonly #sources = new Map<string, SinkSource>();
  /** The last checkpoint read or committed, by source. */
  readonly checkpoints: Map<string, ProductCheckpoint> = new Map();
  /** Trades committed by this sink. */
  trades = 0;

  /** `runId` is written to each checkpoint. */
  constructor(options: TradeSinkOptions, runId: string) {
    this.#options = options;
    this.#runId = runId;
  }

  /** Adds a source; must be called before its harvest. */
  add(name: string, source: SinkSource): void {
    this.#sources.set(name, source);
  }

  async load(
    source: string,
    signal: AbortSignal,
  ): Promise<HarvestCheckpoint<TradePosition> | undefined> {
    const name = ProductLedger.checkpointName(source);
    const { records } = await this.#options.store.read([name], { signal });
    if (records[0] === undefined) return undefined;
    const checkpoint = readCheckpoint(name, records[0].value);
    this.checkpoints.set(source, checkpoint);
    return checkpoint.harvest;
  }

  async commit(
    batch: HarvestBatch<RawPage, TradePosition>,
    checkpoint: HarvestCheckpoint<TradePosition>,
    fence: HarvestFence,
    signal: AbortSignal,
  ): Promise<void> {
    const { store, ledger } = this.#options;
    const of = this.#sources.get(batch.source) as SinkSource;
    const name = ProductLedger.checkpointName(batch.source);
    let file: RawFile | undefined;
    // The store refuses the commit if an earlier attempt has succeeded after all, or if a
    // comparison with the feed has changed the checkpoint. Then the checkpoint is read again.
    for (let attempt = 0; attempt < 4; attempt += 1) {
      const [guard, { records }] = await Promise.all([
        ledger.guard(of, signal),
        store.read([name], { signal }),
      ]);
      const stored = records[0] && readCheckpoint(name, records[0].value);
      const { commits, fence: newest } = checkpoint;
      if (stored?.harvest.commits === commits && stored.harvest.fence === newest) {
        this.checkpoints.set(batch.source, stored);
        return;
      }
      if ((stored?.harvest.commits ?? 0) !== commits - 1) break;
      file ??= await this.#write(batch, { ...of, fence: fence.fence }, signal);
      const next = this.#next(stored, of, checkpoint, batch, file);
      const change = { name, ifVersion: records[0]?.version ?? 0, value: checkpointRecord(next) };
      const changes = [notCopied, guard, change, ...ledgerLine(batch.source, commits, file)];
      // Undefined if one of the records has been changed meanwhile.
      if ((await store.commit(fenced(fence, changes), { signal })) === undefined) {
        await refuseCopied(store, signal);
        continue;
      }
      this.checkpoints.set(batch.source, next);
      this.trades += file?.trades ?? 0;
      return;
    }
    const message = `${batch.source}: another holder of the lease has taken over`;
    throw new SpillwayError('HARVEST_STALE', message);
  }

  #next(
    stored: ProductCheckpoint | undefined,
    of: SinkSource,
    harvest: HarvestCheckpoint<TradePosition>,
    batch: HarvestBatch<RawPage, TradePosition>,
    file: RawFile | undefined,
  ): ProductCheckpoint {
    const { clock, isFeed, connector } = this.#options;
    const feed = isFeed ? feedProof(stored?.feed, batch) : stored?.feed;
    return {
      harvest,
      begin: stored?.begin ?? of.begin,
      address: connector.address,
      ...(stored?.accepted === undefined ? {} : { accepted: stored.accepted }),
      ...(feed === undefined ? {} : { feed }),
      trades: (stored?.trades ?? 0) + (file?.trades ?? 0),
      highestId: Math.max(stored?.highestId ?? 0, file?.lastId ?? 0),
      runId: this.#runId,
      updatedAt: new Date(clock.now()).toISOString(),
    };
  }

  async #write(
    batch: HarvestBatch<RawPage, TradePosition>,
    { exchange, product, generation, fence }: SinkSource & { readonly fence: number },
    signal: AbortSignal,
  ): Promise<RawFile | undefined> {
    const { folder, connector } = this.#options;
    const read = batch.pages.flatMap(({ rows }) => rows);
    const byTime = connector.hasDenseIds
      ? undefined
      : inOrderOfId(read.filter((page) => 'ids' in page));
    // Pages by time may have lower ids than the pages before them.
    const from = Math.min(idOf(batch.from), byTime?.[0]?.ids[0] ?? Infinity);
    const range = { exchange, product, generation, fence, from, to: idOf(batch.to) };
    return await writeRawFile(folder, range, byTime ?? read, signal);
  }
}

/** Adds the ids of the batch to those that are not compared yet. */
function feedProof(
  { from, to, contradicted, contradiction }: FeedProof = noProof,
  batch: HarvestBatch<RawPage, TradePosition>,
): FeedProof {
  const isCompared = from === to;
  return {
    from: isCompared ? idOf(batch.from) : from,
    to: idOf(batch.to),
    contradicted,
    contradiction,
  };
}

const noProof: FeedProof = { from: 0, to: 0, contradicted: 0, contradiction: null };

function ledgerLine(source: string, commit: number, file: RawFile | undefined) {
  if (file === undefined) return [];
  return [{ name: ProductLedger.ledgerName(source, commit), value: file as unknown as Json }];
}
