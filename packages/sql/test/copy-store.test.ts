import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { Lease } from 'spillway';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { copyStore, Database } from 'spillway-sql';

it('a store is copied to Postgres and back, and its fences go on', async () => {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'spillway-copy-'))).path;
  const open = async (url: string) => stack.use(await Database.open<unknown>({ url }));
  const first = await open(`sqlite:${join(folder, 'first.db')}`);
  const postgres = await open(await postgresUrl(stack));
  const last = await open(`sqlite:${join(folder, 'last.db')}`);
  const store = await first.store();
  const names = Array.from({ length: 2_500 }, (_, at) => `checkpoint/${at}`);
  const changes = names.map((name, at) => ({ name, value: { at, text: 'é"\n' } }));
  await store.commit(changes);
  await store.commit([{ name: 'passing', value: 1, ttlMs: 1e9 }]);
  const terms = { name: 'harvest', ttlMs: 60_000 };
  const lease = await Lease.acquire({ ...terms, store });
  await assert.rejects(copyStore(first, postgres), /lease\/harvest.* is held: stop what holds it/);
  assert.deepEqual(await (await postgres.store()).list('', { max: 9 }), [], 'all or none');
  await lease[Symbol.asyncDispose]();
  let { fence } = lease;
  for (const [from, to] of [
    [first, postgres],
    [postgres, last],
  ] as const) {
    const copied = await copyStore(from, to);
    assert.ok(copied >= names.length && copied <= names.length + 1, `${copied}`);
    await assert.rejects(copyStore(from, to), /the other store is not empty/);
    const there = await to.store();
    const { records } = await there.read(names);
    assert.deepEqual(
      records.map((record) => record?.value),
      changes.map(({ value }) => value),
    );
    assert.deepEqual((await there.read(['passing'])).records, [undefined]);
    const next = await Lease.acquire({ ...terms, store: there });
    assert.ok(next.fence > fence, `${next.fence} after ${fence}`);
    fence = next.fence;
    await next[Symbol.asyncDispose]();
  }
});
