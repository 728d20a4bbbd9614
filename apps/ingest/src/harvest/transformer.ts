import type { Lease } from 'spillway';
import { ingestError } from '../errors.ts';
import type { RawEntry } from '../files/raw-file.ts';
import { type IcebergWish, type Published, publishIceberg } from '../table/iceberg.ts';
import type { Merged, TradeTable } from '../table/trade-table.ts';
import { type Context, type ProductGeneration, takeLease } from './ledger.ts';

export interface TransformRequest {
  /** @default all that were harvested */
  readonly products?: readonly string[] | undefined;
  /** Rebuilds the products from all of their raw files. */
  readonly rebuild: boolean;
  /** Waits while another process changes the table; otherwise rejects with `TABLE_LOCKED`. */
  readonly waits: boolean;
  /** Neighbours of similar size to join into one file; 0 joins all files of a day. @default 0 */
  readonly joinsFrom?: number | undefined;
}

/** Result of a transform. */
export interface Transformed extends Merged {
  readonly products: number;
}

/** Raw files merged in one change: the work a crash may cost, and how often readers see news. */
const filesMax = 200;

/** Brings the table up to date with the ledger, one process at a time. */
export class Transformer {
  readonly #context: Context;
  readonly #table: TradeTable;

  constructor(context: Context, table: TradeTable) {
    this.#context = context;
    this.#table = table;
  }

  async run(request: TransformRequest, signal: AbortSignal): Promise<Transformed> {
    await using lease = await this.#lease(request.waits, signal);
    const table = this.#table;
    const { ledger, clock } = this.#context;
    const limit = AbortSignal.any([signal, lease.signal]);
    const fence = { fence: lease.fence, signal: limit };
    await table.refresh(limit);
    const before = table.manifest.version;
    const products = request.products ?? (await ledger.products(limit));
    const sum = { products: products.length, files: 0, read: 0, added: 0, partitions: 0 };
    const changes: string[] = [];
    const add = (one: Merged): void => {
      sum.files += one.files;
      sum.read += one.read;
      sum.added += one.added;
      sum.partitions += one.partitions;
      changes.push(...one.changes);
    };
    for (const product of products) {
      const of = await ledger.current(product, limit);
      const after = this.#mergedTo(of);
      if (after === undefined || request.rebuild) {
        const entries = await ledger.entries(of, { signal: limit });
        if (entries.length > 0) add(await table.rebuild(entries, fence));
        continue;
      }
      const entries = await ledger.entries(of, { after, signal: limit });
      for (const some of slices(entries)) add(await table.merge(some, fence));
    }
    if (table.manifest.version > before) await table.compact(fence, request.joinsFrom);
    await publishIceberg(table.folder, table.manifest, clock.now(), { signal: limit });
    return { ...sum, changes, version: table.manifest.version };
  }

  /** Writes Iceberg metadata, now and from now on after each change of the table. */
  async iceberg(location: string | undefined, signal: AbortSignal): Promise<readonly Published[]> {
    await using lease = await this.#lease(false, signal);
    const { folder, clock } = this.#context;
    const limit = AbortSignal.any([signal, lease.signal]);
    const wish: IcebergWish = { begins: true, location, signal: limit };
    return await publishIceberg(folder, await this.#table.refresh(limit), clock.now(), wish);
  }

  /** The last commit in the table; undefined if the table has another generation. */
  #mergedTo({ exchange, product, generation }: ProductGeneration): number | undefined {
    const { products } = this.#table.manifest;
    const merged = products.find((one) => one.exchange === exchange && one.product === product);
    if (merged === undefined) return 0;
    return merged.generation === generation ? merged.mergedTo : undefined;
  }

  async #lease(waits: boolean, signal: AbortSignal): Promise<Lease> {
    try {
      return await takeLease(this.#context, 'table', signal, waits);
    } catch (cause) {
      if (Object(cause).code !== 'LEASE_HELD') throw cause;
      throw ingestError('TABLE_LOCKED', 'another process is changing the table', { cause });
    }
  }
}

function* slices(entries: readonly RawEntry[]): Generator<readonly RawEntry[]> {
  for (let at = 0; at < entries.length; at += filesMax) yield entries.slice(at, at + filesMax);
}
