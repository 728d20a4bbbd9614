import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { checkInteger } from 'spillway/internal';
import { itemsOf, pageOf, type TradePage, wantedOf } from '../connectors/page.ts';
import { ingestError } from '../errors.ts';
import type { Folder, FolderFile } from './folder.ts';

/** Entry of the ledger about one raw file. */
export interface RawFile {
  /** Its path in the folder. */
  readonly file: string;
  /** The range of ids that was asked for, from `from` to before `to`. */
  readonly from: number;
  readonly to: number;
  /** Number of its lines, at least 1. */
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

/**
 * Parts of the name of a raw file. A retry under the same lease meets its own file; whoever has
 * slept through its lease meets nobody's.
 */
export interface RawRange {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  /** The number of the lease under which it is written; an integer from 0. */
  readonly fence: number;
  readonly from: number;
  readonly to: number;
  readonly firstUs: number;
}

/** The directory of one day of one product, below `raw` or below the table. */
export function dayFolder(exchange: string, product: string, date: string): string {
  return `${productFolder(exchange, product)}/date=${date}`;
}

function productFolder(exchange: string, product: string): string {
  return `exchange=${encodeURIComponent(exchange)}/product=${encodeURIComponent(product)}`;
}

/** The day in UTC, as `2026-01-28`. */
export function dayOf(us: number): string {
  return new Date(us / 1000).toISOString().slice(0, 10);
}

/** `raw/exchange=…/product=…/date=…/<from>-<last>.g<generation>.f<fence>.jsonl.zst` */
export function rawFileName(range: RawRange): string {
  const { exchange, product, generation, fence, from, to, firstUs } = range;
  checkInteger('generation', generation, 1);
  checkInteger('fence', fence, 0);
  const name = `${from}-${to - 1}.g${generation}.f${fence}.jsonl.zst`;
  return `raw/${dayFolder(exchange, product, dayOf(firstUs))}/${name}`;
}

const leaseOf = /\/\d+-\d+\.g(\d+)\.f(\d+)\.jsonl\.zst$/;

/** The raw files of a generation that are there, whether anybody knows of them or not. */
export async function rawFilesOf(
  folder: Folder,
  of: Pick<RawRange, 'exchange' | 'product' | 'generation'>,
  signal?: AbortSignal,
): Promise<readonly (FolderFile & { readonly fence: number })[]> {
  const files = await folder.list(`raw/${productFolder(of.exchange, of.product)}`, signal);
  return files.flatMap((file) => {
    const [, generation, fence] = leaseOf.exec(file.path) ?? [];
    return Number(generation) === of.generation ? [{ ...file, fence: Number(fence) }] : [];
  });
}

const compressOnThread = promisify(zstdCompress);
/** Some 500 trades: 0.15 ms, which is less than the way to a thread and back. */
const smallBytes = 2 ** 16;
/** Bytes compressed by themselves: as small in the end as all at once, with less memory. */
const pieceBytes = 2 ** 20;
/** Level 1 makes 17.7 bytes of a trade in 0.28 µs, level 3 made 19.9 in 0.73 (2026-11). */
const packing = {
  chunkSize: 2 ** 18,
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
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
  const chunks: Uint8Array[] = [];
  let packed: Promise<Uint8Array> | undefined;
  // Piece by piece, as 100,000 trades at once would hold up the event loop for milliseconds; and in
  // equal pieces, as the bytes that zstd makes depend on how its input is cut.
  const length = pages.reduce((sum, { lines }) => sum + lines.length, 0);
  for (const piece of pieces(pages, Math.min(length, pieceBytes))) {
    signal?.throwIfAborted();
    const before = packed;
    packed = compress(piece);
    // Two at once, each on a thread.
    if (before !== undefined) chunks.push(await before);
  }
  if (packed !== undefined) chunks.push(await packed);
  const file = rawFileName({ ...range, firstUs: extent.firstUs });
  const bytes = Buffer.concat(chunks);
  await folder.write(file, bytes, signal);
  const { from, to } = range;
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { file, from, to, ...extent, bytes: bytes.length, sha256 };
}

/** SHA-256 of a file of this machine, in hex. */
export async function hashOf(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const stream = createReadStream(path, signal === undefined ? {} : { signal });
  for await (const chunk of stream) hash.update(chunk as Uint8Array);
  return hash.digest('hex');
}

async function compress(piece: Uint8Array): Promise<Uint8Array> {
  const isSmall = piece.length <= smallBytes;
  return isSmall ? zstdCompressSync(piece, packing) : await compressOnThread(piece, packing);
}

/** The lines of a raw file, without their ends. */
export async function readRawLines(
  folder: Folder,
  file: string,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  let left: Uint8Array = await folder.read(file, signal);
  const parts: Buffer[] = [];
  // A file has one frame for each piece, and Node.js unpacks one at a time.
  while (left.length > 0) {
    const { buffer, engine } = zstdDecompressSync(left, { info: true }) as unknown as Unpacked;
    parts.push(buffer);
    left = left.subarray(engine.bytesWritten);
  }
  return Buffer.concat(parts).toString().split('\n').slice(0, -1);
}

/** The answer of `zstdDecompressSync` with `info`, of which the types do not know. */
interface Unpacked {
  readonly buffer: Buffer;
  /** Input bytes of the frame. */
  readonly engine: { readonly bytesWritten: number };
}

/** The same trades in order of id, each once: for exchanges whose pages are by time. */
export function inOrderOfId(pages: readonly TradePage[]): readonly TradePage[] {
  const ends = pages.map(({ ids }) => ids.at(-1) ?? -1);
  const isAscending = pages.every(({ ids }, at) => !(Number(ids[0]) <= (ends[at - 1] ?? -1)));
  if (isAscending) return pages;
  return [pageOf(wantedOf(pages.flatMap(itemsOf), { from: 0, to: Infinity }))];
}

/**
 * The same bytes, cut anew: only the last piece is smaller than the others. A piece is good until
 * the one after the next is asked for.
 */
function* pieces(pages: readonly TradePage[], size: number): Generator<Uint8Array> {
  let piece = Buffer.allocUnsafeSlow(size);
  let other = Buffer.alloc(0);
  let used = 0;
  for (const { lines } of pages) {
    for (let at = 0; at < lines.length; ) {
      const part = lines.subarray(at, at + size - used);
      piece.set(part, used);
      at += part.length;
      used += part.length;
      if (used < size) continue;
      yield piece;
      if (other.length === 0) other = Buffer.allocUnsafeSlow(size);
      [piece, other] = [other, piece];
      used = 0;
    }
  }
  if (used > 0) yield piece.subarray(0, used);
}

/** Ids and times of the pages; throws where ids do not ascend or leave the range. */
function extentOf(
  { exchange, product, from, to }: Omit<RawRange, 'firstUs'>,
  pages: readonly TradePage[],
) {
  let trades = 0;
  let firstId = -1;
  let lastId = -1;
  let firstUs = Infinity;
  let lastUs = -Infinity;
  for (const { ids, timesUs } of pages) {
    for (const id of ids) {
      if (id <= lastId || id < from || id >= to) {
        const what = `${exchange} ${product}: trade ${id} after ${lastId}`;
        throw ingestError('RAW_INVALID', `${what} in the range ${from} to ${to}`);
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
