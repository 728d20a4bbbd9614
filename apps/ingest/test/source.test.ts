// Slow: harvests from many servers.

import assert from 'node:assert/strict';
import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { binance } from '../src/connectors/binance.ts';
import { coinbase } from '../src/connectors/coinbase.ts';
import { problemsIn, problemText } from '../src/connectors/declaration.ts';
import { kraken } from '../src/connectors/kraken.ts';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { startExchange } from './fixtures/exchanges.ts';
import { type ApiRecord, issueOf } from './fixtures/loopback-api.ts';
import { inScene, Scene } from './fixtures/source-scene.ts';

const issues = '/repos/octocat/hello/issues';
/** A variable as declarations name it. */
const secret = (name: string): string => `\${${name}}`;
const github = {
  name: 'issues',
  address: 'https://api.github.com/repos/{product}/issues',
  products: ['octocat/hello'],
  headers: { authorization: `Bearer ${secret('TOKEN')}` },
  query: { per_page: 10, state: 'all', api_key: secret('TOKEN') },
  key: 'id',
  time: 'created_at',
  pages: { by: 'link', since: 'since', field: 'updated_at' },
  limits: { perSecond: 5_000 },
};
const posts = {
  name: 'posts',
  address: 'http://localhost/posts',
  key: 'id',
  limits: { perSecond: 5_000 },
};

function minute(at: number): string {
  return new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString().replace('.000', '');
}

describe('a declared source with a Link header and a time', () => {
  it('has every record, then only what is new or changed', async () => {
    await inScene(github, async (scene, api, folder) => {
      const list = Array.from({ length: 95 }, (_, at) => issueOf(at + 1, minute(at)));
      api.lists.set(issues, list);
      const first = await scene.run();
      assert.deepEqual([first.outcomes[0]?.status, first.outcomes[0]?.trades], ['done', 95]);
      await scene.assertTrue(list);
      assert.equal(api.seen[0]?.headers.authorization, 'Bearer hidden-word');
      assert.equal(api.seen[0]?.query.get('api_key'), 'hidden-word');
      const idle = await scene.run();
      assert.deepEqual([idle.outcomes[0]?.trades, idle.requests], [0, 1]);
      Object.assign(list[3] as ApiRecord, { title: 'changed', updated_at: minute(200) });
      list.push(issueOf(96, minute(201)));
      const next = await scene.run();
      assert.deepEqual([next.outcomes[0]?.trades, next.transformed.added], [2, 1]);
      await scene.assertTrue(list);
      const shown = await readFile(join(folder, 'ingest.db'), 'latin1');
      assert.ok(!shown.includes('hidden-word'));
    });
  });

  it('loses nothing when records move while it reads, nor where many are of one time', async () => {
    await inScene(github, async (scene, api, folder) => {
      const list = Array.from({ length: 60 }, (_, at) => issueOf(at + 1, minute(at)));
      for (let id = 100; id < 135; id += 1) list.push(issueOf(id, minute(30)));
      api.lists.set(issues, list);
      let moves = 0;
      api.onRequest = () => {
        moves += 1;
        // The first of the list goes to its end: what is counted by pages moves up by one.
        const moved = list[moves * 3];
        if (moved !== undefined && moves < 8) moved.updated_at = minute(1_000 + moves);
      };
      await scene.run();
      await scene.assertTrue(list);
      // The links had the key in them: it is taken out before they are kept.
      const linked = api.seen.filter(({ query }) => query.has('page'));
      assert.ok(linked.length > 0);
      assert.ok(linked.every(({ query }) => query.getAll('api_key').length === 1));
      for (const file of ['ingest.db', 'ingest.db-wal']) {
        const kept = await readFile(join(folder, file), 'latin1');
        assert.ok(!kept.includes('hidden-word'), file);
      }
    });
  });

  it('names a record that is out of order', async () => {
    await inScene({ ...github, query: { _start: 0, _limit: 9 } }, async (scene, api) => {
      api.lists.set(issues, [issueOf(1, minute(5)), issueOf(2, minute(1))]);
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /records\[1\]\.updated_at: must be not before/);
      assert.equal(outcomes[0]?.code, 'HARVEST_REFUSED');
    });
  });

  it('waits as long as a 403 that tells the limit asks for', async () => {
    await inScene(github, async (scene, api) => {
      const list = [issueOf(1, minute(1))];
      api.lists.set(issues, list);
      const date = new Date().toUTCString();
      const reset = String(Math.ceil(Date.parse(date) / 1000));
      const headers = { date, 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset };
      api.faults.push({ status: 403, headers }, { status: 500 });
      const { outcomes } = await scene.run();
      assert.equal(outcomes[0]?.status, 'done');
      await scene.assertTrue(list);
    });
  });
});

const ways = {
  offset: { by: 'offset', offset: '_start', limit: '_limit', size: 10 },
  page: { by: 'page', page: 'page', size: 10 },
  cursor: { by: 'cursor', cursor: 'cursor', next: 'next' },
  ids: { by: 'ids', query: { from: '{from}', to: '{to}' }, latest: { newest: 1 }, size: 10 },
} as const;
const places: Readonly<Record<string, object>> = {
  page: { records: 'data.items' },
  cursor: { records: 'items' },
};

describe('a declared source by', () => {
  for (const [by, pages] of Object.entries(ways)) {
    it(`${by}: has every record once, goes on where it ended, and asks little`, async () => {
      await inScene({ ...posts, ...places[by], pages }, async (scene, api) => {
        const list = Array.from({ length: 33 }, (_, at) => ({ id: at + 1, title: `post ${at}` }));
        api.lists.set('/posts', list);
        await scene.run();
        await scene.assertTrue(list);
        const idle = await scene.run();
        assert.equal(idle.outcomes[0]?.trades, 0);
        assert.ok(idle.requests <= 2, `${idle.requests} requests`);
        for (let id = 34; id <= 61; id += 1) list.push({ id, title: `late ${id}` });
        const next = await scene.run();
        assert.equal(next.outcomes[0]?.trades, 28);
        await scene.assertTrue(list);
      });
    });
  }

  it('time: goes on by the last time, without a record twice', async () => {
    const pages = { by: 'time', since: 'since', field: 'updated_at', size: 10 };
    await inScene({ ...github, query: { per_page: 10 }, pages }, async (scene, api) => {
      const list = Array.from({ length: 33 }, (_, at) => issueOf(at + 1, minute(at >> 2)));
      api.lists.set(issues, list);
      await scene.run();
      await scene.assertTrue(list);
      list.push(issueOf(40, minute(8)), issueOf(41, minute(9)));
      const { outcomes } = await scene.run();
      assert.equal(outcomes[0]?.trades, 2);
      await scene.assertTrue(list);
    });
  });

  it('ids: notes what is not there as a gap', async () => {
    await inScene({ ...posts, pages: ways.ids }, async (scene, api) => {
      const all = Array.from({ length: 30 }, (_, at) => ({ id: at + 1, title: 'x' }));
      api.lists.set(
        '/posts',
        all.filter(({ id }) => id < 5 || id > 7),
      );
      const { outcomes } = await scene.run();
      assert.deepEqual([outcomes[0]?.trades, outcomes[0]?.gaps], [27, 1]);
    });
  });

  it('another way than before is refused, as its cursor would mean something else', async () => {
    await inScene({ ...posts, pages: ways.offset }, async (scene, api, folder) => {
      api.lists.set('/posts', [{ id: 1, title: 'a' }]);
      await scene.run();
      const changed = { ...posts, ...places.page, pages: ways.page };
      const source = join(folder, 'changed.json');
      await writeFile(source, JSON.stringify(changed));
      const flags = { data: folder, source, baseUrl: api.url };
      const { settings } = readSettings({ flags, environment: {} });
      await using ingest = await openIngest({ settings, environment: {}, batchMsMax: 0 });
      const next = new Scene(api, ingest);
      const { outcomes } = await next.run();
      assert.equal(outcomes[0]?.code, 'SOURCE_INVALID');
      assert.match(String(outcomes[0]?.reason), /read by offset, and pages\.by is page now/);
      assert.equal((await next.run(true)).outcomes[0]?.status, 'done');
    });
  });

  it('page: says that the size is wrong instead of stopping early', async () => {
    const pages = { ...ways.page, size: 20 };
    await inScene({ ...posts, ...places.page, pages }, async (scene, api) => {
      api.lists.set(
        '/posts',
        Array.from({ length: 30 }, (_, at) => ({ id: at + 1 })),
      );
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /page 1 has 10 records, not 20.*pages\.size/);
    });
  });
});

describe('the columns of a declared source', () => {
  const source = { ...posts, pages: ways.offset, columns: { price: 'decimal(38,18)' } };

  it('are found by sampling, grow, and keep every value when their type changes', async () => {
    await inScene(source, async (scene, api) => {
      const list: ApiRecord[] = [
        {
          id: 1,
          title: 'a',
          votes: 5,
          rate: 1,
          made: '2026-01-01T00:00:00Z',
          date: 'mine',
          none: null,
        },
        { id: 2, title: 'b', votes: 6, rate: 2.5, price: '0.123456789012345678', more: { a: [1] } },
      ];
      api.lists.set('/posts', list);
      await scene.run();
      const types = 'typeof(votes) AS votes, typeof(rate) AS rate, typeof(made) AS made';
      const [first] = await scene.rows(`${types}, date_, more, price`, 'WHERE id = 2');
      assert.deepEqual(first, {
        ...{ votes: 'BIGINT', rate: 'DOUBLE', made: 'TIMESTAMP WITH TIME ZONE', date_: null },
        ...{ more: '{"a":[1]}', price: '0.123456789012345678' },
      });
      list.push({ id: 3, title: 'c', votes: 'many', added: true, made: null });
      const { transformed } = await scene.run();
      assert.deepEqual(transformed.changes, [
        'posts posts: votes was BIGINT and is VARCHAR now, for the value many',
      ]);
      const rows = await scene.rows('id, votes, added', 'ORDER BY id');
      assert.deepEqual(rows, [
        { id: 1, votes: '5', added: null },
        { id: 2, votes: '6', added: null },
        { id: 3, votes: 'many', added: true },
      ]);
      await scene.assertTrue(list);
    });
  });

  it('hold numbers that no double holds as their text', async () => {
    await inScene(source, async (scene, api) => {
      const { rawJSON: raw } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };
      const long = { big: raw('12345678901234567890'), fine: raw('0.10000000000000000001') };
      api.lists.set('/posts', [{ id: 1, ...long, x: raw('1.50') }]);
      await scene.run();
      assert.deepEqual(await scene.rows('big, fine, x'), [
        { big: '12345678901234567890', fine: '0.10000000000000000001', x: 1.5 },
      ]);
    });
  });
});

const addressRule =
  'an http:// or https:// address without a query, a password or another {} than {product}';

describe('a declaration', () => {
  it('is told every problem with field, rule and value', () => {
    const wrong = {
      ...{ name: 'Kraken', address: 'ftp://x', key: [], query: { a: {} }, sort: 1 },
      ...{ pages: { by: 'offset', offset: '', limit: 'l', size: 0 }, columns: { a: 'money' } },
      limits: { perSecond: '5' },
    };
    const letters = 'small letters, digits and -, from 2 to 40';
    const nameRule = `${letters}, and no name of an exchange or of trades`;
    const request = 'name, address, products, headers, query';
    const more = 'pages, limits, columns, trades, unknown, check, feed';
    const fields = `${request}, records, key, time, ${more}`;
    const types = 'boolean, integer, number, date, time, json, text';
    assert.deepEqual(problemsIn(wrong).map(problemText), [
      `name: must be ${nameRule}, got 'Kraken'`,
      `address: must be ${addressRule}, got 'ftp://x'`,
      'query: must be names with texts or numbers, got { a: {} }',
      'key: must be a field, or a list of fields, got []',
      `sort: must be one of ${fields}, got 1`,
      "pages.offset: must be the name of a parameter, got ''",
      'pages.size: must be an integer from 1 to 1000000, got 0',
      "limits.perSecond: must be a number above 0, up to 1,000,000, got '5'",
      `columns.a: must be ${types} or decimal(18,9), got 'money'`,
    ]);
    const [problem] = problemsIn({ ...github, pages: { by: 'guess' } });
    assert.equal(
      problem && problemText(problem).slice(0, 56),
      'pages.by: must be one of ids, offset, page, cursor, link',
    );
  });

  it('of each exchange keeps to the rules for all, apart from its name', () => {
    for (const exchange of [coinbase, kraken, binance]) {
      assert.deepEqual(problemsIn({ ...exchange, name: 'mine' }), [], exchange.name);
    }
    const { trades, ...rest } = coinbase;
    const wrong = { ...trades, price: -1, time: { field: 'time', as: 'text' }, fee: 'fee' };
    const pages = { by: 'link' };
    const problems = problemsIn({ ...rest, name: 'mine', pages, trades: wrong });
    assert.deepEqual(problems.map(problemText), [
      'trades.price: must be the name of a field, or a place in a list, got -1',
      "trades.fee: must be one of id, price, quantity, time, side, got 'fee'",
      "trades.time.as: must be one of iso, epoch, seconds, got 'text'",
      "pages.by: must be ids or moment, for trades, got 'link'",
    ]);
  });

  it('of an exchange of your own brings its trades into the table of trades', async () => {
    await using exchange = await startExchange({ products: [{ id: 'A-USD', trades: 2_500 }] });
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-source-'));
    const source = join(folder.path, 'mine.yaml');
    await writeFile(
      source,
      `name: mine
address: https://example.org/api/v3/historicalTrades
products: { path: /api/v3/exchangeInfo, records: symbols, field: symbol }
query: { symbol: '{product}' }
pages: { by: ids, query: { limit: '{size}', fromId: '{from}' }, latest: { limit: 1 }, size: 1000 }
limits: { perSecond: 1000 }
trades:
  id: id
  price: price
  quantity: qty
  time: { field: time, as: epoch }
  side: { field: isBuyerMaker, of: maker, buy: true, sell: false }
`,
    );
    const flags = { data: folder.path, source, baseUrl: exchange.url };
    const { settings } = readSettings({ flags, environment: {} });
    await using ingest = await openIngest({ settings, environment: {}, batchMsMax: 0 });
    const scene = new Scene({ seen: [] }, ingest);
    const { outcomes } = await scene.run();
    assert.deepEqual([outcomes[0]?.product, outcomes[0]?.trades], ['A-USD', 2_500]);
    assert.deepEqual(await scene.flaws(), []);
    const { rows } = await (await ingest.table()).query(
      `SELECT trade_id, price::VARCHAR AS price, maker_side FROM trades
        WHERE exchange = 'mine' AND trade_id = 77`,
    );
    const truth = exchange.truth('A-USD', 77);
    // The time is in milliseconds without the header that asks for more.
    assert.deepEqual(rows, [
      { trade_id: 77, price: `${truth?.price}0000000`, maker_side: truth?.makerSide },
    ]);
  });

  it('may be a module, and names a variable that is not set', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-source-'));
    const file = join(folder.path, 'source.ts');
    const text = JSON.stringify({ ...github, headers: { key: secret('NO_SUCH') } });
    await writeFile(file, `const source: object = ${text};\nexport default source;\n`);
    const flags = { data: folder.path, source: file };
    const { settings } = readSettings({ flags, environment: {} });
    await assert.rejects(openIngest({ settings, environment: { TOKEN: 'x' } }), {
      code: 'SOURCE_INVALID',
      message: 'issues: headers.key: the variable NO_SUCH is not set',
    });
  });
});

describe('a declared source at random', () => {
  for (const seed of [1, 2]) {
    it(`ends with the truth, whatever changes and fails meanwhile (seed ${seed})`, async () => {
      await inScene(github, async (scene, api) => {
        const random = seededRandom(seed);
        const list: ApiRecord[] = [];
        let now = 0;
        const change = (): void => {
          now += Math.floor(random() * 3);
          const old = list[Math.floor(random() * list.length)];
          if (old !== undefined && random() < 0.5) {
            Object.assign(old, { updated_at: minute(now), title: `t${random()}` });
          } else list.push(issueOf(list.length + 1, minute(now)));
        };
        for (let at = 0; at < 80; at += 1) change();
        api.lists.set(issues, list);
        api.onRequest = () => {
          if (random() < 0.5) change();
          if (random() < 0.1) api.faults.push({ status: random() < 0.5 ? 429 : 503 });
        };
        for (let round = 0; round < 3; round += 1) await scene.run();
        api.onRequest = () => {};
        api.faults.length = 0;
        await scene.run(random() < 0.5);
        await scene.assertTrue(list);
      });
    });
  }
});
