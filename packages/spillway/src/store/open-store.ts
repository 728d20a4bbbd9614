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

/** An engine of another package, and the exported class whose `open({ url })` gives the store. */
interface Engine {
  readonly package: string;
  readonly exported: string;
}

const postgres: Engine = { package: 'spillway-sql', exported: 'PostgresStore' };
const redis: Engine = { package: 'spillway-redis', exported: 'RedisStore' };
const engines = new Map([
  ['postgres', postgres],
  ['postgresql', postgres],
  ['redis', redis],
  ['rediss', redis],
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
  const engine = engines.get(scheme);
  // The address is left out of the message: there may be a password in it.
  const rule = 'memory:, sqlite:<path>, postgres://… or redis://…';
  check(engine !== undefined && path.startsWith('//'), 'url', rule, `${scheme}:…`);
  const module = await loadEngine(engine as Engine, load);
  return await module.open({ url });
}

// The name is no literal, so that bundlers do not look for packages that are not installed.
const importPackage = (name: string): Promise<unknown> => import(name);

interface StoreClass {
  open(options: { readonly url: string }): Promise<Store>;
}

async function loadEngine(
  engine: Engine,
  load: (name: string) => Promise<unknown>,
): Promise<StoreClass> {
  const { package: name, exported } = engine;
  try {
    const module = (await load(name)) as Readonly<Record<string, StoreClass>>;
    return module[exported] as StoreClass;
  } catch (cause) {
    const isMissing = Object(cause).code === 'ERR_MODULE_NOT_FOUND';
    const isThisOne = isMissing && String(Object(cause).message).includes(`'${name}'`);
    if (!isThisOne) throw cause;
    const message = `this store needs the package ${name}: npm install ${name}`;
    throw new SpillwayError('DATABASE_UNUSABLE', message, { cause });
  }
}
