import { createHash } from 'node:crypto';
import { addAbortSignal, Readable } from 'node:stream';
import { constants, createZstdCompress } from 'node:zlib';
import { checkInteger } from 'spillway';
import type { TradePage } from '../trade-page.ts';
import type { Folder } from './folder.ts';
import { storageError } from './storage-error.ts';

/** What the ledger keeps about one raw file. */
export interface RawFile {
  /** Its path in the folder. */
  readonly file: string;
  /** The range of ids that was asked for, from `from` to before `to`. */
  readonly from: number;
  readonly to: number;
  /** How many lines it has, at least 1. */
  readonly trades: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Microseconds since 1970 in UTC; of the earliest and the latest trade. */
  readonly firstUs: number;
  readonly lastUs: number;
  /** Compressed, as it lies there. */
  readonly bytes: number;
  /** Of the compressed bytes, in hex. */
  readonly sha256: string;
}

/** One line of the ledger: a raw file, and the commit that it came with. */
export interface RawEntry extends RawFile {
  readonly exchange: string;
  readonly product: string;
  /** Grows with each full refresh of the product; an integer from 1. */
  readonly generation: number;
  /** Grows with each commit of the product's generation; an integer from 1. */
  readonly commit: number;
}

/** What names a raw file: nothing of the run that writes it, so that a retry meets its own file. */
export interface RawRange {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  readonly from: number;
  readonly to: number;
  readonly firstUs: number;
}

/** The directory of one day of one product, below `raw` or below the table. */
export function dayFolder(exchange: string, product: string, date: string): string {
  const [first, second] = [encodeURIComponent(exchange), encodeURIComponent(product)];
  return `exchange=${first}/product=${second}/date=${date}`;
}

/** The day in UTC, as `2026-01-28`. */
export function dayOf(us: number): string {
  return new Date(us / 1000).toISOString().slice(0, 10);
}

/** `raw/exchange=…/product=…/date=…/<from>-<to>.jsonl.zst`, where `to` is the last id asked for. */
export function rawFileName(range: RawRange): string {
  const { exchange, product, generation, from, to, firstUs } = range;
  checkInteger('generation', generation, 1);
  const refreshed = generation === 1 ? '' : `.g${generation}`;
  const name = `${from}-${to - 1}${refreshed}.jsonl.zst`;
  return `raw/${dayFolder(exchange, product, dayOf(firstUs))}/${name}`;
}

const level = {
  params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
};

/**
 * Writes the pages as one file of JSON lines: the same bytes for the same trades, however they were
 * cut into pages. Undefined when there is no trade in them. The ids must ascend over all pages.
 */
export async function writeRawFile(
  folder: Folder,
  range: Omit<RawRange, 'firstUs'>,
  pages: readonly TradePage[],
  signal?: AbortSignal,
): Promise<RawFile | undefined> {
  const extent = extentOf(range, pages);
  if (extent.trades === 0) return undefined;
  const { from, to } = range;
  const file = rawFileName({ ...range, firstUs: extent.firstUs });
  const chunks: Uint8Array[] = [];
  const hash = createHash('sha256');
  // By pages, since one piece of all of them would be copied at once on the event loop.
  const lines = pages.map((page) => page.lines).filter(({ length }) => length > 0);
  const compressed = Readable.from(lines).pipe(createZstdCompress(level));
  for await (const chunk of addAbortSignal(signal ?? new AbortController().signal, compressed)) {
    chunks.push(chunk);
    hash.update(chunk);
  }
  const bytes = Buffer.concat(chunks);
  await folder.write(file, bytes, signal);
  return { file, from, to, ...extent, bytes: bytes.length, sha256: hash.digest('hex') };
}

type Extent = Pick<RawFile, 'trades' | 'firstId' | 'lastId' | 'firstUs' | 'lastUs'>;

function extentOf(range: Omit<RawRange, 'firstUs'>, pages: readonly TradePage[]): Extent {
  let [trades, firstId, lastId] = [0, -1, -1];
  let [firstUs, lastUs] = [Infinity, -Infinity];
  for (const { ids, timesUs } of pages) {
    for (const id of ids) {
      const isInside = id > lastId && id >= range.from && id < range.to;
      if (!isInside) {
        const what = `${range.exchange} ${range.product}: trade ${id} after ${lastId}`;
        throw storageError('RAW_INVALID', `${what} in a range ${range.from} to ${range.to}`);
      }
      if (trades === 0) firstId = id;
      lastId = id;
      trades += 1;
    }
    for (const us of timesUs) {
      const time = Number(us);
      if (time < firstUs) firstUs = time;
      if (time > lastUs) lastUs = time;
    }
  }
  return { trades, firstId, lastId, firstUs, lastUs };
}
