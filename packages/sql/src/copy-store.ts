import { CompiledQuery } from 'kysely';
import type { NamedRecord } from 'spillway';
import type { Database } from './database.ts';

const pageMax = 1_000;
/** Statements about the counter of versions, by database. */
const counters = {
  sqlite: {
    read: 'select version from spillway_clock',
    raise: 'update spillway_clock set version = max(version, ?)',
  },
  postgres: {
    read: 'select version from spillway_store_state',
    raise: 'update spillway_store_state set version = greatest(version, $1)',
  },
} as const;

/**
 * Copies the records that do not expire from the store of one database into the empty store of
 * another, all or none, and gives their number. New versions are higher than those of the first
 * store, so that no lease gets a lower fence than before. No process may use the stores meanwhile:
 * the call rejects if a lease is held.
 */
export async function copyStore<Source, Target>(
  from: Database<Source>,
  to: Database<Target>,
): Promise<number> {
  await using source = await from.store();
  await using target = await to.store();
  if ((await target.list('', { max: 1 })).length > 0) {
    throw new Error('the other store is not empty');
  }
  const counter = await from.kysely.executeQuery(CompiledQuery.raw(counters[from.kind].read));
  const { version } = counter.rows[0] as { readonly version: number };
  return await to.transaction(async (tx) => {
    await tx.executeQuery(CompiledQuery.raw(counters[to.kind].raise, [version]));
    let count = 0;
    let page: readonly NamedRecord[] = [];
    do {
      page = await source.list('', { max: pageMax, after: page.at(-1)?.name });
      const held = page.find(({ name, expiresAt }) => /^lease\//.test(name) && expiresAt);
      if (held !== undefined) throw new Error(`${held.name} is held: stop what holds it first`);
      const lasting = page.filter(({ expiresAt }) => expiresAt === undefined);
      const changes = lasting.map(({ name, value }) => ({ name, value }));
      await to.commitIn(tx, changes);
      count += changes.length;
    } while (page.length === pageMax);
    return count;
  });
}
