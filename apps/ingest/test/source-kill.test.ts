import assert from 'node:assert/strict';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { seededRandom } from 'spillway';
import { openIngest } from '../src/open.ts';
import { expectedProducts, verify } from '../src/quality/verify.ts';
import { readSettings } from '../src/settings.ts';
import { Child } from './fixtures/child.ts';
import { issueOf, LoopbackApi } from './fixtures/loopback-api.ts';

const { INGEST_SOURCE_KILLS: kills = '5' } = process.env;
const { signal } = new AbortController();
const products = ['a', 'b', 'c'];
/** Many processes are started: on a busy machine each takes seconds. */
const timeout = 1_200_000;
const source = {
  name: 'issues',
  address: 'http://localhost/{product}',
  products,
  query: { per_page: 10 },
  key: 'id',
  time: 'created_at',
  pages: { by: 'link', since: 'since', field: 'updated_at' },
  limits: { perSecond: 200 },
};

describe('a declared source whose processes are killed again and again', () => {
  it(`has every record once, as it is now, after ${kills} kills`, { timeout }, async () => {
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-source-kill-')));
    const api = stack.use(await LoopbackApi.open());
    const random = seededRandom(7);
    let now = 0;
    const minute = (): string => new Date(Date.UTC(2026, 0, 1) + now * 60_000).toISOString();
    const lists = products.map((name) => {
      const list = Array.from({ length: 120 }, (_, at) => {
        now += at % 3;
        return issueOf(at + 1, minute());
      });
      api.lists.set(`/${name}`, list);
      return list;
    });
    api.onRequest = () => {
      now += 1;
      const list = lists[Math.floor(random() * 3)] ?? [];
      const one = list[Math.floor(random() * list.length)];
      Object.assign(one ?? {}, { title: `changed at ${now}`, updated_at: minute() });
    };
    await writeFile(join(folder.path, 'source.json'), JSON.stringify(source));
    const place = { data: folder.path, source: join(folder.path, 'source.json') };
    const flags = { ...place, baseUrl: api.url };
    const task = { flags, products, leaseMs: 500, cooldownMs: 50, pagesMax: 4 };
    let other = await stack.use(new Child()).ready();
    for (let round = 0; round < Number(kills); round += 1) {
      const next = stack.use(new Child());
      other.begin(task);
      const until = api.seen.length + Math.floor(30 * random());
      const enough = AbortSignal.timeout(3_000);
      while (api.seen.length < until && !other.isDone && !enough.aborted) await setTimeout(2);
      await other.kill();
      other = await next.ready();
    }
    api.onRequest = () => {};
    const { statuses } = await other.run({ ...task, leaseMs: 10_000, pagesMax: 1_000 });
    assert.deepEqual(statuses, ['done', 'done', 'done']);
    const { settings } = readSettings({ flags, environment: {} });
    await using ingest = await openIngest({ settings, environment: {} });
    const table = await ingest.table();
    for (const [at, product] of products.entries()) {
      const sql = `SELECT id, title FROM issues WHERE product = '${product}' ORDER BY id`;
      const truth = (lists[at] ?? []).map(({ id, title }) => ({ id, title }));
      const byId = truth.sort((a, b) => a.id - b.id);
      assert.deepEqual((await table.query(sql)).rows, byId, product);
    }
    const found = await verify(table, await expectedProducts(ingest, signal));
    assert.deepEqual([found.issues, found.waiting], [[], 0]);
  });
});
