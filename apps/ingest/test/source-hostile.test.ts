import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { problemsIn, problemText, readDeclaration } from '../src/connectors/declaration.ts';
import { ingest } from './fixtures/ingest-command.ts';
import { type ApiRecord, issueOf, LoopbackApi } from './fixtures/loopback-api.ts';
import { atStandIn, inScene } from './fixtures/source-scene.ts';

const posts = {
  name: 'posts',
  address: 'http://localhost/posts',
  key: 'id',
  limits: { perSecond: 5_000 },
};
const byCursor = { by: 'cursor', cursor: 'cursor', next: 'next' };
const byOffset = { by: 'offset', offset: '_start', limit: '_limit', size: 10 };

describe('an API that answers in a strange way', () => {
  it('gives its cursor again: the run fails and says so', async () => {
    for (const [pages, header] of [
      [byCursor, {}],
      [{ by: 'link' }, { link: '</posts?again=1>; rel="next"' }],
    ] as const) {
      await atStandIn({ ...posts, records: 'items', pages }, {}, async (site, scene) => {
        let id = 0;
        site.serve = (_request, response) => {
          id += 1;
          response.writeHead(200, header).end(JSON.stringify({ items: [{ id }], next: 'same' }));
        };
        const { outcomes } = await scene.run();
        assert.equal(outcomes[0]?.status, 'failed');
        assert.match(
          String(outcomes[0]?.reason),
          /a page with new records names itself as the next/,
        );
      });
    }
  });

  it('gives cursors that lead in a circle: the run fails and says so', async () => {
    for (const length of [2, 7]) {
      await atStandIn({ ...posts, records: 'items', pages: byCursor }, {}, async (site, scene) => {
        site.serve = (request, response) => {
          const { searchParams } = new URL(request.url ?? '/', 'http://x');
          const at = Number(searchParams.get('cursor') ?? 0);
          const next = at === length ? '1' : String(at + 1);
          response.end(JSON.stringify({ items: [{ id: at }], next }));
        };
        const { outcomes, requests } = await scene.run();
        assert.equal(outcomes[0]?.code, 'HARVEST_REFUSED');
        assert.match(String(outcomes[0]?.reason), /leads back to a page that was read before/);
        assert.ok(requests <= 3 * length + 2, `${requests} requests`);
      });
    }
  });

  it('does not know the parameter for the page: the run fails and says so', async () => {
    const byPage = { by: 'page', page: 'p', size: 10 };
    for (const pages of [byPage, byOffset]) {
      await atStandIn({ ...posts, pages }, {}, async (site, scene) => {
        site.tell(JSON.stringify(Array.from({ length: 10 }, (_, id) => ({ id }))));
        const { outcomes, requests } = await scene.run();
        assert.equal(outcomes[0]?.code, 'HARVEST_REFUSED');
        assert.match(String(outcomes[0]?.reason), /does the API know the parameters in "pages"\?/);
        assert.ok(requests <= 5, `${requests} requests`);
      });
    }
  });

  it('gives pages without a record for ever: the run fails and says so', async () => {
    const byCursorOf = { ...posts, records: 'items', pages: byCursor };
    for (const declaration of [{ ...posts, pages: { by: 'link' } }, byCursorOf]) {
      await atStandIn(declaration, {}, async (site, scene) => {
        let page = 0;
        site.serve = (_request, response) => {
          page += 1;
          const body = declaration === byCursorOf ? { items: [], next: `page ${page}` } : [];
          response.setHeader('link', `</posts?page=${page}>; rel="next"`).end(JSON.stringify(body));
        };
        const { outcomes } = await scene.run();
        assert.match(String(outcomes[0]?.reason), /1000 pages in a row have no record/);
      });
    }
  });

  it('gives a page without a record before others: those are read too', async () => {
    await atStandIn({ ...posts, records: 'items', pages: byCursor }, {}, async (site, scene) => {
      site.serve = (request, response) => {
        const { searchParams } = new URL(request.url ?? '/', 'http://x');
        const at = Number(searchParams.get('cursor') ?? 0);
        const items = at % 3 === 0 ? [{ id: at }] : [];
        response.end(JSON.stringify({ items, next: at < 9 ? String(at + 1) : null }));
      };
      const { outcomes, requests } = await scene.run();
      assert.deepEqual([outcomes[0]?.status, outcomes[0]?.trades, requests], ['done', 4, 10]);
    });
  });

  it('has a cursor for ever and a field that tells the end: that ends the run', async () => {
    const pages = { ...byCursor, more: 'paging.more' };
    await atStandIn({ ...posts, records: 'items', pages }, {}, async (site, scene) => {
      let asked = 0;
      let isMore: unknown;
      site.serve = (_request, response) => {
        asked += 1;
        isMore = asked === 9 ? 'no' : asked % 3 !== 0;
        const body = { items: [{ id: asked }], next: `${asked}`, paging: { more: isMore } };
        response.end(JSON.stringify(body));
      };
      for (const trades of [3, 6]) {
        const { outcomes } = await scene.run();
        assert.deepEqual([outcomes[0]?.status, outcomes[0]?.tradesInAll], ['done', trades]);
      }
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /paging\.more: must be true or false, got 'no'/);
    });
  });

  it('does not tell on the last page whether there are more: a cursor says so', async () => {
    const pages = { ...byCursor, more: 'paging.more' };
    await atStandIn({ ...posts, records: 'items', pages }, {}, async (site, scene) => {
      let asked = 0;
      site.serve = (_request, response) => {
        asked += 1;
        const paging = [{ more: true }, { more: null }, {}, undefined][asked - 1];
        const next = asked < 4 ? `${asked}` : null;
        response.end(JSON.stringify({ items: [{ id: asked }], next, paging }));
      };
      const { outcomes } = await scene.run();
      assert.deepEqual([outcomes[0]?.status, outcomes[0]?.trades], ['done', 4]);
    });
  });

  it('gives ever new records of one time: the run fails and says so', async () => {
    const pages = { by: 'time', since: 'since', field: 'at', size: 2 };
    await atStandIn({ ...posts, pages }, {}, async (site, scene) => {
      let id = 0;
      site.serve = (_request, response) => {
        id += 2;
        const at = '2026-01-01T00:00:00Z';
        response.end(
          JSON.stringify([
            { id, at },
            { id: id + 1, at },
          ]),
        );
      };
      const { outcomes, requests } = await scene.run();
      assert.equal(outcomes[0]?.status, 'failed');
      assert.match(String(outcomes[0]?.reason), /2026-01-01T00:00:00Z.* new records 100 times/);
      assert.ok(requests < 110, `${requests} requests`);
    });
  });

  it('gives keys of several types: refused before they are stored as the same', async () => {
    for (const other of ['1', true]) {
      await inScene({ ...posts, pages: byOffset }, async (scene, api) => {
        const list = Array.from({ length: 10 }, (_, at) => ({ id: at + 1, title: 'x' }));
        api.lists.set('/posts', list as ApiRecord[]);
        await scene.run();
        list.push({ id: other as never, title: 'y' });
        const { outcomes } = await scene.run();
        const told = String(outcomes[0]?.reason);
        assert.match(told, /records\[0\]\.id: must be a number, as this part/);
        assert.deepEqual(await scene.rows('count(*) AS n'), [{ n: 10 }]);
      });
    }
  });

  it('gives a page of HTML with status 200: the text of it is told', async () => {
    await atStandIn({ ...posts, pages: byOffset }, {}, async (site, scene) => {
      site.tell('<!doctype html>\n<title>Sign in</title>');
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /not JSON: <!doctype html> <title>Sign in/);
    });
  });

  it('gives fewer records than were asked for, all of one time: none is passed over', async () => {
    const pages = { by: 'time', since: 'since', field: 'updated_at', size: 10 };
    const issues = {
      ...posts,
      name: 'issues',
      address: 'http://localhost/issues',
      query: { per_page: 3 },
      pages,
    };
    const at = (minute: number) => `2026-01-01T00:0${minute}:00Z`;
    await inScene(issues, async (scene, api) => {
      const list = [1, 2, 2, 3].map((minute, place) => issueOf(place + 1, at(minute)));
      api.lists.set('/issues', list);
      api.hasLinks = false;
      assert.equal((await scene.run()).outcomes[0]?.status, 'done');
      await scene.assertTrue(list);
      list.push(...[5, 6, 7, 8].map((id) => issueOf(id, at(4))), issueOf(9, at(5)));
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /more than 3 records at 2026-01-01T00:04:00Z/);
    });
  });

  it('has NUL or half a character in a name: it is a column like any other', async () => {
    await inScene({ ...posts, pages: byOffset }, async (scene, api) => {
      api.lists.set('/posts', [
        { id: 1, title: 'a\0b', 'x\0y': 5, 'o\'"\0': 'q' },
        { id: 2, title: '\ud800 \\ud800', 'x\0y': 6, '\udfff': 7 },
      ]);
      const { outcomes } = await scene.run();
      assert.equal(outcomes[0]?.status, 'done');
      assert.deepEqual(await scene.rows('id, title, x_y, "\ufffd"', 'ORDER BY id'), [
        { id: 1, title: 'a\0b', x_y: 5, '\ufffd': null },
        { id: 2, title: '\ufffd \\ud800', x_y: 6, '\ufffd': 7 },
      ]);
    });
  });

  it('has records of many fields, one of them long', async () => {
    await inScene({ ...posts, pages: { ...byOffset, size: 100 } }, async (scene, api) => {
      const fields = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`field${at}`, at]));
      const list = Array.from({ length: 100 }, (_, at) => ({
        id: at + 1,
        text: 'y'.repeat(4_000),
        ...fields,
      }));
      api.lists.set('/posts', list);
      await scene.run();
      const sums = await scene.rows(
        'count(*) AS n, sum(field29) AS sum, min(length(text)) AS text',
      );
      assert.deepEqual(sums, [{ n: 100, sum: 2_900, text: 4_000 }]);
      assert.deepEqual(await scene.flaws(), []);
    });
  });

  it('has long records: a page of 50 MB is stored and checked', async () => {
    await inScene({ ...posts, pages: { ...byOffset, size: 50_000 } }, async (scene, api) => {
      const text = 'y'.repeat(1_000);
      const list = Array.from({ length: 50_000 }, (_, at) => ({
        id: at + 1,
        text: `${at} ${text}`,
      }));
      api.lists.set('/posts', list);
      assert.equal((await scene.run()).outcomes[0]?.status, 'done');
      assert.deepEqual(await scene.rows('count(DISTINCT id) AS n'), [{ n: list.length }]);
      assert.deepEqual(await scene.flaws(), []);
    });
  });

  it('has records that take more memory than usual: DuckDB gets it, up to a limit', async () => {
    const declaration = { ...posts, pages: { ...byOffset, size: 100 } };
    const list = Array.from({ length: 10 }, (_, at) => ({
      id: at + 1,
      text: randomBytes(1_500_000).toString('hex'),
    }));
    await inScene(declaration, async (scene, api) => {
      api.lists.set('/posts', list);
      assert.equal((await scene.run()).outcomes[0]?.status, 'done');
      const lengths = await scene.rows('count(*) AS n, sum(length(text)) AS length');
      assert.deepEqual(lengths, [{ n: 10, length: 30_000_000 }]);
      assert.deepEqual(await scene.flaws(), []);
    });
    const run = inScene(
      declaration,
      async (scene, api) => {
        api.lists.set('/posts', list);
        await scene.run();
      },
      '96',
    );
    await assert.rejects(run, { code: 'MEMORY_SHORT', message: /set memoryMbMax higher/ });
  });
});

describe('a harvest of nothing', () => {
  it('is verified: an empty list is a list', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-empty-'));
    await using api = await LoopbackApi.open();
    api.lists.set('/posts', []);
    const source = join(folder.path, 'source.json');
    await writeFile(source, JSON.stringify({ ...posts, records: 'items', pages: byCursor }));
    const place = ['--data', folder.path, '--source', source, '--base-url', api.url];
    assert.equal((await ingest('run', ...place)).code, 0);
    const { code, stdout, stderr } = await ingest('verify', ...place);
    assert.match(stdout, /0 .* of 1 product .*nothing is missing/, stderr);
    assert.equal(code, 0);
    const status = await ingest('status', ...place);
    assert.match(status.stdout, /^product +records /, 'not every source has trades');
  });
});

describe('a declaration with a mistake', () => {
  it('says so where a name has nothing after it that must have something', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-blank-'));
    const file = join(folder.path, 'blank.yaml');
    const blank = ['columns', 'headers', 'query', 'products', 'limits', 'trades', 'time'];
    const text = `name: posts
address: http://localhost/posts
key:
pages: { by: page, page: page, size: 10, first: }
${blank.map((name) => `${name}:\n`).join('')}`;
    await writeFile(file, text);
    const read = await readDeclaration(file);
    assert.deepEqual(problemsIn(read).map(problemText), [
      'key: must be a field, or a list of fields, got undefined',
    ]);
    await writeFile(file, text.replace('key:', 'key: id'));
    const pages = { by: 'page', page: 'page', size: 10 };
    const { name, address } = { ...posts };
    assert.deepEqual(await readDeclaration(file), { name, address, key: 'id', pages });
  });

  it('is told which address or header cannot be', () => {
    for (const address of [
      'http://user:word@localhost/posts',
      'http://localhost/{prodct}/posts',
      'http://localhost/posts?state=all',
    ]) {
      const problems = problemsIn({ ...posts, address, pages: byOffset });
      assert.deepEqual(
        problems.map(({ field }) => field),
        ['address'],
        address,
      );
    }
    assert.deepEqual(
      problemsIn({ ...posts, address: 'http://x/@a/{product}', pages: byOffset }),
      [],
    );
    const headers = { 'x token': 'a' };
    const [problem] = problemsIn({ ...posts, headers, pages: byOffset });
    assert.match(problem ? problemText(problem) : '', /^headers: must be names of headers/);
  });
});

describe('a declaration that would do harm', () => {
  it('is refused if it is large, or names a product that is a step in a path', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-large-'));
    const file = join(folder.path, 'large.yaml');
    await writeFile(file, `name: a\nnote: "${'x'.repeat(2 ** 20)}"\n`);
    await assert.rejects(readDeclaration(file), {
      code: 'SOURCE_INVALID',
      message: `${file}: cannot be read: it has 1048593 bytes, at most 1048576 are read`,
    });
    const address = 'http://localhost/{product}/posts';
    for (const product of ['.', '..', 'a/../b']) {
      const [problem] = problemsIn({ ...posts, address, products: [product], pages: byOffset });
      assert.match(problem ? problemText(problem) : '', /^products: must be .* \. or \.\./);
      await inScene({ ...posts, address, products: ['a'], pages: byOffset }, async (scene, api) => {
        const [outcome] = (await scene.run(false, [product])).outcomes;
        assert.match(String(outcome?.reason), /no product is called \. or \.\./);
        assert.equal(api.seen.length, 0);
      });
    }
  });
});
