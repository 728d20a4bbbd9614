import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Frees what is no longer used, now. Pages that were committed are 100 MB of it, and DuckDB, which
 * needs the room next, is nothing that V8 would see as a reason to collect them.
 */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
