import type { Store, StoreChange } from 'spillway';
import { ingestError } from '../errors.ts';

/** Name of the record that marks a store as copied; its value is the address of the copy. */
export const copiedTo = 'ingest/copied-to';

/** A condition that makes a store refuse commits once it has been copied. */
export const notCopied: StoreChange = { name: copiedTo, ifVersion: 0, checkOnly: true };

/** Refuses a store that was copied: the copy has newer checkpoints. */
export async function refuseCopied(store: Store, signal?: AbortSignal): Promise<void> {
  const { records } = await store.read([copiedTo], { signal });
  const [mark] = records;
  if (mark === undefined) return;
  const undo = '"ingest copy-store --undo" makes this one the store again, as it was then';
  const message = `the store was copied to ${mark.value}: set "store" to that one; ${undo}`;
  throw ingestError('STORE_COPIED', message);
}
