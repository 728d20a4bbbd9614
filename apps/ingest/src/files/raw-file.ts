import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { checkInteger } from 'spillway/internal';
import { itemsOf, pageOf, type TradePage, wantedOf } from '../connectors/page.ts';
import { ingestError } from '../errors.ts';
import type { Folder, FolderFile } from './folder.ts';

/** One raw file, as the ledger describes it. */
export interface RawFile {
  /** Its path in the folder. */
  readonly file: string;
  /** The requested range of ids, from `from` to below `to`. */
  readonly from: number;
  readonly to: number;
  /** Number of its lines, at least 1. */
  readonly trades: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Times of the earliest and the latest trade, in microseconds since 1970 in UTC. */
  readonly firstUs: number;
  readonly lastUs: number;
  /** Compressed size. */
  readonly bytes: number;
  /** Of the compressed bytes, in hex. */
  readonly sha256: string;
}

/** One line of the ledger: a raw file and its commit. */
export interface RawEntry extends RawFile {
  readonly exchange: string;
  readonly product: string;
  /** Grows with each full refresh of the product; an integer from 1. */
  readonly generation: number;
  /** Grows with each commit of the product's generation; an integer from 1. */
  readonly commit: number;
}

/**
 * Parts of the name of a raw file. A retry under the same lease writes the same file again; a
 * process with an expired lease cannot overwrite another's file.
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

/** Returns the directory of one day of one product, below `raw` or the table. */
export function dayFolder(exchange: string, product: string, date: string): string {
  return `${productFolder(exchange, product)}/date=${date}`;
}

function productFolder(exchange: string, product: string): string {
  return `exchange=${encodeURIComponent(exchange)}/product=${encodeURIComponent(product)}`;
}

/** Returns the day in UTC, as `2026-01-28`. After 2255 rounding may give the next day. */
export function dayOf(us: number): string {
  return new Date(Math.floor(us / 1000)).toISOString().slice(0, 10);
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

/** Lists all raw files of a generation, also those that the ledger does not name. */
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
/** Largest page that is compressed together with others: some 500 trades. */
const smallBytes = 2 ** 16;
/** Largest piece to compress on this thread: 0.1 ms, where a handover costs 0.4 (2026-11). */
const quickBytes = 2 ** 18;
/** Bytes of small pages that are compressed as one frame. */
const pieceBytes = 2 ** 20;
/** Level 1 makes 17.7 bytes of a trade in 0.28 µs, level 3 made 19.9 in 0.73 (2026-11). */
const packing = {
  chunkSize: 2 ** 16,
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
};

interface Extent {
  readonly trades: number;
  readonly firstId: number;
  readonly lastId: number;
  readonly firstUs: number;
  readonly lastUs: number;
}

/** A page with compressed lines: a tenth of the memory, for pages that wait. */
interface PackedPage extends Extent {
  readonly packed: Uint8Array;
}

/** A page on its way to a raw file. */
export type RawPage = TradePage | PackedPage;

/** Compresses a page, unless it is small: small ones are compressed together later. */
export async function packedPage(page: TradePage): Promise<RawPage> {
  if (page.lines.length <= smallBytes) return page;
  // Copied, since the original keeps zlib's whole chunk alive.
  return { ...extentOf(page), packed: new Uint8Array(await compress(page.lines)) };
}

/**
 * Writes pages, whose ids must ascend, as one file of JSON lines. Returns undefined, and writes
 * nothing, if they have no trades.
 */
export async function writeRawFile(
  folder: Folder,
  range: Omit<RawRange, 'firstUs'>,
  pages: readonly RawPage[],
  signal?: AbortSignal,
): Promise<RawFile | undefined> {
  const extent = extentOfAll(range, pages);
  if (extent.trades === 0) return undefined;
  const frames: Uint8Array[] = [];
  for await (const frame of framesOf(pages)) {
    signal?.throwIfAborted();
    frames.push(frame);
  }
  const file = rawFileName({ ...range, firstUs: extent.firstUs });
  const bytes = Buffer.concat(frames);
  await folder.write(file, bytes, signal);
  const { from, to } = range;
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { file, from, to, ...extent, bytes: bytes.length, sha256 };
}

/** Computes the SHA-256 of a file of this machine, in hex. */
export async function hashOf(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const stream = createReadStream(path, signal === undefined ? {} : { signal });
  for await (const chunk of stream) hash.update(chunk as Uint8Array);
  return hash.digest('hex');
}

async function compress(piece: Uint8Array): Promise<Uint8Array> {
  const isQuick = piece.length <= quickBytes;
  return isQuick ? zstdCompressSync(piece, packing) : await compressOnThread(piece, packing);
}

/** Reads the lines of a raw file, without line ends. */
export async function readRawLines(
  folder: Folder,
  file: string,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  let left: Uint8Array = await folder.read(file, signal);
  const parts: Buffer[] = [];
  // A file consists of several frames, and Node.js decompresses one at a time.
  while (left.length > 0) {
    const { buffer, engine } = zstdDecompressSync(left, { info: true }) as unknown as Unpacked;
    parts.push(buffer);
    left = left.subarray(engine.bytesWritten);
  }
  return Buffer.concat(parts).toString().split('\n').slice(0, -1);
}

/** The result of `zstdDecompressSync` with `info`, which is missing in the types. */
interface Unpacked {
  readonly buffer: Buffer;
  /** Input bytes of the frame. */
  readonly engine: { readonly bytesWritten: number };
}

/** Sorts the trades of pages by id, each once, for exchanges whose pages are by time. */
export function inOrderOfId(pages: readonly TradePage[]): readonly TradePage[] {
  const full = pages.filter(({ ids }) => ids.length > 0);
  const isAscending = full.every(({ ids }, at) => {
    return Number(ids[0]) > (full[at - 1]?.ids.at(-1) ?? -1);
  });
  if (isAscending) return pages;
  return [pageOf(wantedOf(pages.flatMap(itemsOf), { from: 0, to: Infinity }))];
}

/** Yields compressed frames: packed pages as they are, and neighbouring small ones together. */
async function* framesOf(pages: readonly RawPage[]): AsyncGenerator<Uint8Array> {
  let small: Uint8Array[] = [];
  let bytes = 0;
  for (const page of pages) {
    const isPacked = 'packed' in page;
    if (bytes > 0 && (isPacked || bytes + page.lines.length > pieceBytes)) {
      yield await compress(Buffer.concat(small));
      small = [];
      bytes = 0;
    }
    if (isPacked) yield page.packed;
    else small.push(page.lines);
    bytes += isPacked ? 0 : page.lines.length;
  }
  if (bytes > 0) yield await compress(Buffer.concat(small));
}

function extentOf({ ids, timesUs }: TradePage): Extent {
  let lastId = -1;
  for (const id of ids) {
    if (id <= lastId) throw ingestError('RAW_INVALID', `trade ${id} after ${lastId}`);
    lastId = id;
  }
  let firstUs = Infinity;
  let lastUs = -Infinity;
  for (const us of timesUs) {
    if (us < firstUs) firstUs = us;
    if (us > lastUs) lastUs = us;
  }
  return { trades: ids.length, firstId: ids[0] ?? -1, lastId, firstUs, lastUs };
}

/** Returns the extent of all pages; throws if ids do not ascend, or leave the range. */
function extentOfAll(
  { exchange, product, from, to }: Omit<RawRange, 'firstUs'>,
  pages: readonly RawPage[],
): Extent {
  let all = { trades: 0, firstId: -1, lastId: -1, firstUs: Infinity, lastUs: -Infinity };
  for (const page of pages) {
    const { trades, firstId, lastId, firstUs, lastUs } = 'packed' in page ? page : extentOf(page);
    if (trades === 0) continue;
    if (firstId <= all.lastId || firstId < from || lastId >= to) {
      const what = `${exchange} ${product}: trades ${firstId} to ${lastId} after ${all.lastId}`;
      throw ingestError('RAW_INVALID', `${what} in the range ${from} to ${to}`);
    }
    all = {
      trades: all.trades + trades,
      firstId: all.trades === 0 ? firstId : all.firstId,
      lastId,
      firstUs: Math.min(all.firstUs, firstUs),
      lastUs: Math.max(all.lastUs, lastUs),
    };
  }
  return all;
}
