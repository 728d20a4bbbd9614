import type { ModelName } from './document.ts';

/** What a reader likes: immutable, all numbers in shared memory, replaced whole. */
export interface Taste {
  readonly version: number;
  readonly model: ModelName;
  /** The rated articles, in the order of the rows of all that is kept about them. */
  readonly ids: readonly string[];
  /** The bytes in which it can be stored and from which {@link readTaste} makes it again. */
  readonly bytes: Uint8Array;
}
