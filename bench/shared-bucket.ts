import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { SqliteStore, type Store } from 'spillway';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { Database } from 'spillway-sql';
import type { Bench, Contestant, Run } from './contest.ts';

/** Takes one token; resolves when it may be used. */
export type Take = () => Promise<unknown>;
/** Opens a limiter on a store that others share, with no rate in its way that it could reach. */
export type OpenTake = (store: Store) => Take;

/** Four parties, each with a handle of its own as processes have, and 16 callers in each. */
const parties = 4;
const callers = 16;

const runs = ['SQLite', 'Postgres'].map((name): Run => {
  return {
    name: `takes on ${name}, 4 parties`,
    rounds: 3,
    figures: [
      { name: 'takes', unit: 'per s', better: 'more', targets: [] },
      { name: 'takes for each store call', unit: 'takes', better: 'more', targets: [] },
    ],
  };
});

/** Measures the cost of a token from a bucket in a store. */
export const sharedBucket: Bench = {
  contenders: {
    'spillway SharedBucket': async () =>
      contestant((await import('./shared-bucket/ours.ts')).openTake),
    'a transaction a token': async () =>
      contestant((await import('./shared-bucket/each-token.ts')).openTake),
  },
  yardsticks: [],
  runs,
};

function contestant(openTake: OpenTake): Contestant {
  return async (run, quick) => {
    await using stack = new AsyncDisposableStack();
    const openStore = await (run.includes('SQLite') ? sqlite(stack) : postgres(stack));
    let calls = 0;
    const takes: Take[] = [];
    for (let i = 0; i < parties; i += 1) {
      const store = stack.use(await openStore());
      takes.push(openTake(counted(store, () => (calls += 1))));
    }
    await keepBusy(takes, 500);
    calls = 0;
    const ms = quick ? 500 : 2_000;
    const done = await keepBusy(takes, ms);
    return { takes: (done * 1_000) / ms, 'takes for each store call': done / calls };
  };
}

async function sqlite(stack: AsyncDisposableStack): Promise<() => Promise<Store>> {
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'spillway-bench-')));
  return () => SqliteStore.open({ path: join(folder.path, 'bench.db') });
}

async function postgres(stack: AsyncDisposableStack): Promise<() => Promise<Store>> {
  const url = await postgresUrl(stack, { settings: [] });
  return async () => {
    const database = stack.use(await Database.open<unknown>({ url, connectionsMax: 2 }));
    return database.store();
  };
}

function counted(store: Store, count: () => void): Store {
  return {
    read(...args) {
      count();
      return store.read(...args);
    },
    commit(...args) {
      count();
      return store.commit(...args);
    },
    apply(...args) {
      const applied = store.apply?.(...args);
      if (applied !== undefined) count();
      return applied;
    },
    list: (...args) => store.list(...args),
    [Symbol.asyncDispose]: async () => {},
  };
}

/** Number of tokens taken in that time. */
async function keepBusy(takes: readonly Take[], ms: number): Promise<number> {
  const endsAt = performance.now() + ms;
  let done = 0;
  const call = async (take: Take): Promise<void> => {
    for (let own = 1; ; own += 1) {
      await take();
      if (performance.now() >= endsAt) return;
      done += 1;
      // Callers come in turns of the loop, as requests do; or it would never turn.
      if (own % 16 === 0) await setImmediate();
    }
  };
  await Promise.all(takes.flatMap((take) => Array.from({ length: callers }, () => call(take))));
  return done;
}
