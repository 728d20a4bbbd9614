import { createHash } from 'node:crypto';
import { storageError } from './storage-error.ts';

/** One Parquet file of the table: the trades of one product on one day, by ascending id. */
export interface TableFile {
  /** Its path in the folder. */
  readonly path: string;
  readonly exchange: string;
  readonly product: string;
  /** The day in UTC, as `2026-01-28`. */
  readonly date: string;
  readonly rows: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Microseconds since 1970 in UTC; of the earliest and the latest trade. */
  readonly firstUs: number;
  readonly lastUs: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** How far the ledger of a product is in the table. */
export interface MergedProduct {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  /** The last commit of the ledger that is in the table; 0 for none. */
  readonly mergedTo: number;
  /** Lines read from raw files, repeats included. */
  readonly read: number;
  /** Trades in the table: lines read without repeats. */
  readonly rows: number;
}

/** One state of the table: which files make it up. Whoever has it sees just this state. */
export interface Manifest {
  /** Grows by one with each change; 0 for a table that has never been written. */
  readonly version: number;
  /** The fencing number of the lease under which it was made; never goes back. */
  readonly fence: number;
  /** By exchange, then product. */
  readonly products: readonly MergedProduct[];
  /** By exchange, product, date, then first id. */
  readonly files: readonly TableFile[];
}

/** The state before the first. */
export const emptyManifest: Manifest = { version: 0, fence: 0, products: [], files: [] };

const format = 'spillway-trades';
/** Grows when a program of before could misread the table. */
const formatVersion = 1;

/** A line that tells what follows, with its checksum, and the manifest itself. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  const body = JSON.stringify(manifest);
  const sha256 = createHash('sha256').update(body).digest('hex');
  return Buffer.from(`${JSON.stringify({ format, formatVersion, sha256 })}\n${body}\n`);
}

/** Throws `TABLE_CORRUPT` or `TABLE_FUTURE`, naming the file: it never guesses. */
export function decodeManifest(bytes: Uint8Array, version: number, place: string): Manifest {
  const text = Buffer.from(bytes).toString();
  const end = text.indexOf('\n');
  const head = parsed(text.slice(0, end === -1 ? 0 : end), place) as Record<string, unknown>;
  if (head.format !== format) throw corrupt(place, `it is no manifest of ${format}`);
  const known = head.formatVersion;
  if (typeof known === 'number' && known > formatVersion) {
    const what = `${place}: its format is version ${known}, this program knows ${formatVersion}`;
    throw storageError('TABLE_FUTURE', `${what}; nothing was changed, use a newer program`);
  }
  const body = text.slice(end + 1, -1);
  const sha256 = createHash('sha256').update(body).digest('hex');
  if (known !== formatVersion || sha256 !== head.sha256) {
    throw corrupt(place, 'its checksum does not fit');
  }
  const manifest = parsed(body, place) as Manifest;
  if (manifest.version === version) return manifest;
  throw corrupt(place, `it is version ${manifest.version}, and has the name of ${version}`);
}

function parsed(text: string, place: string): unknown {
  try {
    return JSON.parse(text) ?? {};
  } catch (cause) {
    throw corrupt(place, 'it is no manifest', cause);
  }
}

function corrupt(place: string, why: string, cause?: unknown): Error {
  const remedy = 'nothing was changed; put back a copy, or delete it to go back to the one before';
  return storageError('TABLE_CORRUPT', `${place}: ${why}; ${remedy}`, { cause });
}
