import { existsSync } from 'node:fs';
import { check } from './check.ts';

/**
 * The file of a worker thread: beside this package's entries, or beside the bundle that this code
 * went into, if that was given the entry `spillway/<name>` as well.
 */
export function threadFile(name: 'pool-worker' | 'sqlite-worker'): URL {
  const files = ['./', '../'].flatMap((folder) => {
    return ['.js', '.mjs', '.ts'].map(
      (ending) => new URL(`${folder}${name}${ending}`, import.meta.url),
    );
  });
  const found = files.find((file) => existsSync(file));
  check(found !== undefined, `spillway/${name}`, 'bundled as an entry of its own', files[0]?.href);
  return found as URL;
}
