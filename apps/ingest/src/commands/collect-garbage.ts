import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Frees what is no longer used, now. Pages that were committed are 100 MB of it, and DuckDB, which
 * needs the room next, is nothing that V8 would see as a reason to collect them. It stops the event
 * loop for some 30 ms, so it is for commands, not for services.
 */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
