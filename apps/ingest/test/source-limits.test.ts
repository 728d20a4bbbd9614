// Slow: harvests from many servers.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { problemsIn } from '../src/connectors/declaration.ts';
import { atStandIn } from './fixtures/source-scene.ts';

const posts = {
  name: 'posts',
  address: 'http://localhost/posts',
  key: 'id',
  limits: { perSecond: 5_000 },
};

describe('an API without measure', () => {
  it('gives 200,000 records in one answer, whatever is asked for: all are stored', async () => {
    const all = JSON.stringify(Array.from({ length: 200_000 }, (_, at) => ({ id: at + 1 })));
    const byIds = { by: 'ids', query: { from: '{from}' }, latest: { limit: 1 }, size: 200_000 };
    for (const pages of [{ by: 'link' }, byIds]) {
      await atStandIn({ ...posts, pages }, {}, async (site, scene) => {
        site.tell(all);
        const { outcomes } = await scene.run();
        assert.deepEqual([outcomes[0]?.status, outcomes[0]?.trades], ['done', 200_000]);
        assert.deepEqual(await scene.flaws(), []);
      });
    }
  });

  it('gives times that no calendar has: named; the first and the last year are right', async () => {
    const declaration = { ...posts, time: 't', pages: { by: 'link' } };
    for (const t of [1e300, -1e300, '0000-12-31', '9999-12-31T23:59:59-05:00']) {
      await atStandIn(declaration, {}, async (site, scene) => {
        site.tellJson([{ id: 1, t }]);
        const { outcomes } = await scene.run();
        assert.match(String(outcomes[0]?.reason), /records\[0\]\.t: must be a time/);
      });
    }
    await atStandIn(declaration, {}, async (site, scene) => {
      const times = ['0001-01-01T00:00:00Z', -1e12, '9999-12-31T23:59:59.9999999Z'];
      site.tellJson(times.map((t, id) => ({ id, t })));
      await scene.run();
      assert.deepEqual(await scene.rows('date', 'ORDER BY id'), [
        { date: '0001-01-01' },
        { date: '1938-04-24' },
        { date: '9999-12-31' },
      ]);
      assert.deepEqual(await scene.flaws(), []);
    });
  });

  it('gives what cannot be read: the run fails at once and says so', async () => {
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
    const fields = Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [`f${at}`, at]));
    const cases = [
      [`[{"id":1,"deep":${deep}}]`, /\/posts: an answer that cannot be read: Maximum call stack/],
      [JSON.stringify([{ id: 1, ...fields }]), /records\[0\]: must be of at most 1000 fields/],
      ['[{"id":"\\ud800"},{"id":"\\ud801"}]', /records\[0\]\.id: must be a text or a number/],
    ] as const;
    for (const [body, wanted] of cases) {
      await atStandIn({ ...posts, pages: { by: 'link' } }, {}, async (site, scene) => {
        site.tell(body);
        const { outcomes, requests } = await scene.run();
        assert.match(String(outcomes[0]?.reason), wanted);
        assert.equal(requests, 1);
      });
    }
  });

  it('gives ever new fields: what was fetched is kept, and the error says so', async () => {
    const pages = { by: 'page', page: 'p', size: 600 };
    await atStandIn({ ...posts, pages }, {}, async (site, scene) => {
      site.tellJson(Array.from({ length: 1_001 }, (_, id) => ({ id, [`f${id}`]: id })));
      await assert.rejects(scene.run(), /more than 1000 fields.*f\d+: what was fetched is kept/);
    });
  });

  it('asks for a pause of centuries: it is a refusal like any other', async () => {
    const headers = [
      { 'retry-after': '9'.repeat(400) },
      { 'retry-after': '9999999999' },
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': 'Infinity' },
    ];
    for (const header of headers) {
      await atStandIn({ ...posts, pages: { by: 'link' } }, {}, async (site, scene) => {
        site.serve = (_request, response) => {
          if (site.asked.length === 1) response.writeHead(429, header).end('{}');
          else response.end('[{"id":1}]');
        };
        const { outcomes, requests } = await scene.run();
        assert.deepEqual([outcomes[0]?.status, requests], ['done', 2]);
      });
    }
  });

  it('says that more follows and gives no cursor: the run fails and says so', async () => {
    const pages = { by: 'cursor', cursor: 'after', next: 'next', more: 'has_more' };
    await atStandIn({ ...posts, records: 'data', pages }, {}, async (site, scene) => {
      site.tellJson({ data: [{ id: 1 }], has_more: true, next: null });
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /next: must be a cursor, as has_more is true/);
    });
  });

  it('has links that are no address, or with dots in their query', async () => {
    await atStandIn({ ...posts, pages: { by: 'link' } }, {}, async (site, scene) => {
      site.tell('[]', 200, { link: '<http://[posts>; rel="next"' });
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /link: must be an address at/);
      site.serve = ({ url = '' }, response) => {
        const isFirst = !url.includes('?');
        if (isFirst) response.setHeader('link', '</posts?at=a/../b>; rel="next"');
        response.end(JSON.stringify([{ id: isFirst ? 1 : 2 }]));
      };
      assert.equal((await scene.run()).outcomes[0]?.trades, 2);
    });
  });

  it('has products with a $ in their name, which is sent as it is', async () => {
    const declaration = { ...posts, products: ["$&-$$-$'"], query: { of: '{product}' } };
    await atStandIn({ ...declaration, pages: { by: 'link' } }, {}, async (site, scene) => {
      site.tell('[]');
      await scene.run();
      const { searchParams } = new URL(String(site.asked[0]?.slice(4)), 'http://x');
      assert.equal(searchParams.get('of'), "$&-$$-$'");
    });
  });
});

describe('an API by time', () => {
  const times = Array.from({ length: 57 }, (_, at) => 1_600_000_000 + at / 10);
  const inIso = (second: number): string => new Date(second * 1_000).toISOString();
  const pages = { by: 'time', since: 'since', field: 't', size: 20 };

  it('that knows whole seconds, or tells fractions of them, gives every record', async () => {
    for (const write of [Number, (second: number) => second.toFixed(6), inIso]) {
      await atStandIn({ ...posts, time: 't', pages }, {}, async (site, scene) => {
        const all = times.map((second, id) => ({ id, second, t: write(second) }));
        site.serve = ({ url = '' }, response) => {
          const since = new URL(url, 'http://x').searchParams.get('since') ?? '0';
          const from = Math.floor(since.includes('T') ? Date.parse(since) / 1_000 : Number(since));
          const found = all.filter(({ second }) => second >= from).slice(0, 20);
          response.end(JSON.stringify(found));
        };
        for (const run of ['first', 'second']) {
          const { outcomes, requests } = await scene.run();
          assert.equal(outcomes[0]?.status, 'done', `${run}: ${outcomes[0]?.reason}`);
          assert.ok(requests < 20, `${requests} requests`);
        }
        const [row] = await scene.rows('count(*) AS records, count(DISTINCT t) AS times');
        assert.deepEqual(row, { records: 57, times: 57 });
        assert.deepEqual(await scene.flaws(), []);
      });
    }
  });

  it('that gives only what is after a time: the run fails and says so', async () => {
    for (const count of [57, 3]) {
      await atStandIn({ ...posts, pages }, {}, async (site, scene) => {
        const all = times.slice(0, count).map((second, id) => ({ id, t: inIso(second) }));
        site.serve = ({ url = '' }, response) => {
          const since = new URL(url, 'http://x').searchParams.get('since') ?? '';
          response.end(JSON.stringify(all.filter(({ t }) => t > since).slice(0, 20)));
        };
        const { outcomes } = await scene.run();
        assert.match(String(outcomes[0]?.reason), /gives nothing of that time, but it is there/);
      });
    }
  });
});

describe('products of one source', () => {
  it('with a field of several kinds: all of it is text in the view', async () => {
    const address = 'http://localhost/posts/{product}';
    const values = { a: true, b: 1, c: '2020-01-01', e: 2.5 };
    const products = Object.keys(values);
    const declaration = { ...posts, address, products, pages: { by: 'link' } };
    await atStandIn(declaration, {}, async (site, scene) => {
      site.serve = ({ url = '' }, response) => {
        const product = url.slice(-1) as keyof typeof values;
        response.end(JSON.stringify([{ id: 1, value: values[product], [product]: 1 }]));
      };
      await scene.run();
      const rows = await scene.rows('value, a, e', 'ORDER BY product');
      assert.deepEqual(rows, [
        { value: 'true', a: 1, e: null },
        { value: '1', a: null, e: null },
        { value: '2020-01-01', a: null, e: null },
        { value: '2.5', a: null, e: 1 },
      ]);
      assert.deepEqual(await scene.flaws(), []);
    });
  });
});

describe('a module that declares what no file can', () => {
  it('is told its problems', () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    for (const query of [circle, { a: 1n }, { a: Symbol('a') }]) {
      const [problem] = problemsIn({ ...posts, query, products: ['a'], pages: { by: 'link' } });
      assert.equal(problem?.field, 'query');
    }
  });
});
