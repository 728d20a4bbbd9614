import { check } from '../base/check.ts';
import { SpillwayError } from '../base/errors.ts';
import { callback, or, settle } from '../base/options.ts';
import { MemoryStore } from './memory-store.ts';
import { SqliteStore } from './sqlite-store.ts';
import type { Store } from './store.ts';

export interface OpenStoreOptions {
  /**
   * Imports `spillway-sql` or `spillway-redis`. Give `(name) => import(name)` of your own module
   * where this package cannot see its siblings: pnpm, Plug'n'Play, bundles.
   * @default an import from this package
   */
  readonly load?: ((name: string) => Promise<unknown>) | undefined;
}

/** The package of each scheme, and its class whose `open({ url })` gives the store. */
const engines: ReadonlyMap<string, readonly [name: string, exported: string]> = new Map([
  ['postgres', ['spillway-sql', 'PostgresStore']],
  ['postgresql', ['spillway-sql', 'PostgresStore']],
  ['redis', ['spillway-redis', 'RedisStore']],
  ['rediss', ['spillway-redis', 'RedisStore']],
]);

/**
 * Opens the store of an address: `memory:`, `sqlite:<path>`, `postgres://…`, `redis://…`. The
 * package of a server's engine is loaded when it is needed; `open` of each store has more options.
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<Store> {
  const { load } = settle('openStore', options, { load: or(callback, importPackage) });
  if (url === 'memory:') return new MemoryStore();
  const [, scheme = '', path = ''] = /^(\w+):(.+)$/s.exec(url) ?? [];
  if (scheme === 'sqlite') return await SqliteStore.open({ path });
  const [name = '', exported = ''] = engines.get(scheme) ?? [];
  // The address is left out of the message: there may be a password in it.
  const rule = 'memory:, sqlite:<path>, postgres://… or redis://…';
  check(name !== '' && path.startsWith('//'), 'url', rule, `${scheme}:…`);
  const module = (await loadEngine(name, load)) as Readonly<Record<string, StoreClass>>;
  return await (module[exported] as StoreClass).open({ url });
}

interface StoreClass {
  open(options: { readonly url: string }): Promise<Store>;
}

// The name is no literal, so that bundlers do not look for packages that are not installed.
const importPackage = (name: string): Promise<unknown> => import(name);

async function loadEngine(name: string, load: typeof importPackage): Promise<unknown> {
  try {
    return await load(name);
  } catch (cause) {
    const isMissing = Object(cause).code === 'ERR_MODULE_NOT_FOUND';
    const isThisOne = isMissing && String(Object(cause).message).includes(`'${name}'`);
    if (!isThisOne) throw cause;
    const message = `this store needs the package ${name}: npm install ${name}`;
    throw new SpillwayError('DATABASE_UNUSABLE', message, { cause });
  }
}
