import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import { problemsIn, problemText, readDeclaration } from '../src/connectors/declaration.ts';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { ingest } from './fixtures/ingest-command.ts';
import { type ApiRecord, issueOf, LoopbackApi } from './fixtures/loopback-api.ts';
import { inScene, Scene } from './fixtures/source-scene.ts';

const posts = {
  name: 'posts',
  address: 'http://localhost/posts',
  key: 'id',
  limits: { perSecond: 5_000 },
};
const token = `\${TOKEN}`;
const byCursor = { by: 'cursor', cursor: 'cursor', next: 'next' };
const byOffset = { by: 'offset', offset: '_start', limit: '_limit', size: 10 };

/** An API whose answers are told one by one. */
async function atStandIn(
  declaration: object,
  environment: Readonly<Record<string, string>>,
  work: (site: StandIn, scene: Scene, folder: string) => Promise<void>,
): Promise<void> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-hostile-'));
  await using site = await StandIn.open();
  const source = join(folder.path, 'source.json');
  await writeFile(source, JSON.stringify(declaration));
  const flags = { data: folder.path, source, baseUrl: site.url };
  const { settings } = readSettings({ flags, environment: {} });
  const quick = { batchMsMax: 0, cooldownMs: 50 };
  await using opened = await openIngest({ settings, environment, ...quick });
  await work(site, new Scene({ seen: site.asked }, opened), folder.path);
}

describe('a secret that an API gives back', () => {
  const secret = 'p&ss/w=rd+1';
  const declaration = {
    ...posts,
    headers: { authorization: `Bearer ${token}` },
    query: { api_key: token },
    records: 'items',
    pages: byCursor,
  };

  for (const value of [secret, 'p"ss w/rd&1']) {
    it(`is masked in errors, however it is written: ${value}`, async () => {
      const forms = [
        value,
        encodeURIComponent(value),
        encodeURI(value),
        Buffer.from(value).toString('base64'),
        JSON.stringify({ key: value }).slice(8, -2),
        JSON.stringify({ key: value }).slice(8, -2).replaceAll('/', '\\/'),
        Buffer.from(value).toString('hex'),
        Buffer.from(value).toString('hex').toUpperCase(),
        value.replaceAll('&', '&amp;').replaceAll('"', '&quot;'),
        value.replaceAll('&', '&#38;').replaceAll('"', '&#34;'),
        Buffer.from(`me:${value}`).toString('base64').slice(4),
        Buffer.from(`user:${value}`).toString('base64').slice(7),
      ];
      await atStandIn(declaration, { TOKEN: value }, async (site, scene) => {
        for (const form of forms) {
          // The second is at the place where the text of an error is cut.
          const text = `${form} ${'x'.repeat(170)} ${form} is not a key`;
          for (const status of [400, 401]) {
            site.tell(text, status);
            const said = String((await scene.run()).outcomes[0]?.reason);
            assert.match(said, new RegExp(`posts: /posts: ${status} \\$\\{TOKEN`));
            assert.ok(!said.includes(form.slice(0, 6)), said);
          }
        }
      });
    });
  }

  it('is masked where a field or the whole answer is wrong', async () => {
    for (const answer of [
      `<html>${secret}`,
      `{"items":"${secret}"}`,
      `{"items":[],"next":["${secret}"]}`,
      // Where the text of an error is cut.
      `<html>${'x'.repeat(310)}${secret}`,
      `<html>${' '.repeat(310)}${secret}`,
      `{"items":"${'x'.repeat(75)}${secret}"}`,
      `{"items":{"a":"${'x'.repeat(75)}${secret}"}}`,
    ]) {
      await atStandIn(declaration, { TOKEN: secret }, async (site, scene) => {
        site.tell(answer);
        const { outcomes } = await scene.run();
        assert.equal(outcomes[0]?.status, 'failed');
        assert.ok(!String(outcomes[0]?.reason).includes('p&ss'), String(outcomes[0]?.reason));
      });
    }
  });

  it('is masked where pages are by ids', async () => {
    const query = { from: '{from}', to: '{to}' };
    const pages = { by: 'ids', size: 10, query, latest: { newest: 1 } };
    for (const isLatest of [true, false]) {
      await atStandIn({ ...declaration, pages }, { TOKEN: secret }, async (site, scene) => {
        site.serve = (request, response) => {
          const isWrong = isLatest || !request.url?.includes('newest');
          const id = isWrong ? `${'x'.repeat(75)}${secret}` : 5;
          response.end(JSON.stringify({ items: [{ id }, { id: isWrong ? secret : 4 }] }));
        };
        const { outcomes } = await scene.run();
        assert.equal(outcomes[0]?.status, 'failed');
        const said = String(outcomes[0]?.reason);
        assert.match(said, /must be an integer from 0, got/);
        assert.ok(!said.includes('p&s'), said);
      });
    }
  });

  it('is not kept as part of a cursor, and sent again as it was', async () => {
    await atStandIn(declaration, { TOKEN: secret }, async (site, scene, folder) => {
      const next = `after ${secret} ${Buffer.from(secret).toString('base64')}`;
      const cursors: string[] = [];
      site.serve = (request, response) => {
        const { searchParams } = new URL(request.url ?? '/', 'http://x');
        cursors.push(searchParams.get('cursor') ?? '');
        const isFirst = !searchParams.has('cursor');
        const items = [{ id: isFirst ? 1 : 2 }];
        response.end(JSON.stringify({ items, next: isFirst ? next : null }));
      };
      const { outcomes } = await scene.run();
      assert.deepEqual([outcomes[0]?.status, outcomes[0]?.trades], ['done', 2]);
      assert.deepEqual(cursors, ['', next]);
      for (const file of ['ingest.db', 'ingest.db-wal']) {
        const kept = await readFile(join(folder, file), 'latin1');
        assert.ok(!kept.includes('p&ss'), file);
        assert.ok(!kept.includes(Buffer.from(secret).toString('base64')), file);
      }
      await scene.run();
      assert.deepEqual(cursors.slice(2), [next]);
    });
  });

  it('is named by its variable if a header cannot have it', async () => {
    const work = async () => {};
    await assert.rejects(atStandIn(declaration, { TOKEN: 'word\n' }, work), {
      code: 'SOURCE_INVALID',
      message: /^posts: headers.authorization: the variable TOKEN has a line break or another/,
    });
  });
});

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
    await atStandIn({ ...posts, pages: { by: 'link' } }, {}, async (site, scene) => {
      let page = 0;
      site.serve = (_request, response) => {
        page += 1;
        response.setHeader('link', `</posts?page=${page}>; rel="next"`).end('[]');
      };
      const { outcomes } = await scene.run();
      assert.match(String(outcomes[0]?.reason), /1000 pages in a row have no record/);
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
