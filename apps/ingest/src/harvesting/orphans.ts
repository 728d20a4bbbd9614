import { type Clock, Lease, type Random, type Store } from 'spillway';
import type { Folder, FolderFile } from '../storage/folder.ts';
import { rawFilesOf } from '../storage/raw-file.ts';
import { type ProductBook, type ProductGeneration, sourceName } from './product-book.ts';

export interface OrphansOptions {
  readonly store: Store;
  readonly folder: Folder;
  readonly book: ProductBook;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly random: Random;
}

/** A disk that is busy with our own files is slow, not gone. */
const deadlineMs = 10_000;

/**
 * Raw files that no line of the ledger names and none ever will: what crashes left. It takes the
 * lease of the product for a moment, and rejects with `LEASE_HELD` if somebody else has it.
 * Whatever was written under an older lease can not be committed any more.
 */
export async function orphansOf(
  of: ProductGeneration,
  { store, folder, book, leaseMs: ttlMs, clock, random }: OrphansOptions,
  signal: AbortSignal,
): Promise<readonly FolderFile[]> {
  const name = `harvest/${sourceName(of)}`;
  const options = { store, name, ttlMs, deadlineMs, waits: false, clock, random };
  await using lease = await Lease.acquire({ ...options, signal });
  const named = new Set((await book.entries(of, { signal })).map(({ file }) => file));
  const files = await rawFilesOf(folder, of, signal);
  return files.filter(({ path, fence }) => fence < lease.fence && !named.has(path));
}
