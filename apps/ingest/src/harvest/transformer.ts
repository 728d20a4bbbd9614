import { type Clock, Lease, type Random, SpillwayError, type Store } from 'spillway';
import { ingestError } from '../errors.ts';
import type { RawEntry } from '../files/raw-file.ts';
import { type IcebergWish, type Published, publishIceberg } from '../table/iceberg.ts';
import type { TradeTable } from '../table/trade-table.ts';
import type { ProductGeneration, ProductLedger } from './ledger.ts';

export interface TransformerOptions {
  readonly store: Store;
  readonly table: TradeTable;
  readonly book: ProductLedger;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly random: Random;
}

export interface TransformRequest {
  /** @default all that were ever harvested */
  readonly products?: readonly string[] | undefined;
  /** Makes the products anew, from all of their raw files. */
  readonly rebuild: boolean;
  /** Waits for its turn if another process changes the table; else that is a failure. */
  readonly waits: boolean;
  /** Neighbours of about the same size that are joined; 0 joins all files of a day. */
  readonly joinsFrom?: number | undefined;
}

/** Result of a transform. */
export interface Transformed {
  readonly products: number;
  /** Raw files that were read, and lines in them. */
  readonly files: number;
  readonly read: number;
  /** Trades that the table did not have before. */
  readonly added: number;
  readonly partitions: number;
  /** Columns whose type has changed, in words. */
  readonly changes: readonly string[];
  /** The version of the table after it. */
  readonly version: number;
}

/** Raw files merged in one go: the cost of a crash, and how often readers see news. */
const filesMax = 200;
/** A disk that is busy with our own files is slow, not gone. */
const deadlineMs = 10_000;

/** Brings the table up to date with the ledger, one process at a time. */
export class Transformer {
  readonly #options: TransformerOptions;

  constructor(options: TransformerOptions) {
    this.#options = options;
  }

  async run(request: TransformRequest, signal: AbortSignal): Promise<Transformed> {
    await using lease = await this.#lease(request.waits, signal);
    const { table, book, clock } = this.#options;
    const limit = AbortSignal.any([signal, lease.signal]);
    const fence = { fence: lease.fence, signal: limit };
    await table.refresh(limit);
    const before = table.manifest.version;
    const products = request.products ?? (await book.products(limit));
    const sum = { products: products.length, files: 0, read: 0, added: 0, partitions: 0 };
    const changes: string[] = [];
    const add = (one: Omit<Transformed, 'products' | 'version'>): void => {
      sum.files += one.files;
      sum.read += one.read;
      sum.added += one.added;
      sum.partitions += one.partitions;
      changes.push(...one.changes);
    };
    for (const product of products) {
      const { current: generation } = await book.generations(product, limit);
      const of = { exchange: book.exchange, product, generation };
      const after = this.#mergedTo(of);
      if (after === undefined || request.rebuild) {
        const entries = await book.entries(of, { signal: limit });
        if (entries.length > 0) add(await table.rebuild(entries, fence));
        continue;
      }
      const entries = await book.entries(of, { after, signal: limit });
      for (const some of slices(entries)) add(await table.merge(some, fence));
    }
    if (table.manifest.version > before) await table.compact(fence, request.joinsFrom);
    await publishIceberg(table.folder, table.manifest, clock.now(), { signal: limit });
    return { ...sum, changes, version: table.manifest.version };
  }

  /** Writes the metadata of Iceberg, and from now on with each change of the table. */
  async iceberg(location: string | undefined, signal: AbortSignal): Promise<readonly Published[]> {
    await using lease = await this.#lease(false, signal);
    const { table, clock } = this.#options;
    const limit = AbortSignal.any([signal, lease.signal]);
    const wish: IcebergWish = { begins: true, location, signal: limit };
    return await publishIceberg(table.folder, await table.refresh(limit), clock.now(), wish);
  }

  /** The last commit that is in the table; undefined if it has another generation. */
  #mergedTo({ exchange, product, generation }: ProductGeneration): number | undefined {
    const { products } = this.#options.table.manifest;
    const merged = products.find((one) => one.exchange === exchange && one.product === product);
    if (merged === undefined) return 0;
    return merged.generation === generation ? merged.mergedTo : undefined;
  }

  async #lease(waits: boolean, signal: AbortSignal): Promise<Lease> {
    const { store, leaseMs: ttlMs, clock, random } = this.#options;
    const options = { store, name: 'table', ttlMs, deadlineMs, waits, signal };
    try {
      return await Lease.acquire({ ...options, clock, random });
    } catch (error) {
      if (!(error instanceof SpillwayError) || error.code !== 'LEASE_HELD') throw error;
      const message = 'another process is changing the table';
      throw ingestError('TABLE_LOCKED', message, { cause: error });
    }
  }
}

function* slices(entries: readonly RawEntry[]): Generator<readonly RawEntry[]> {
  for (let at = 0; at < entries.length; at += filesMax) yield entries.slice(at, at + filesMax);
}
