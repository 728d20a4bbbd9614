// Slow: harvests from many servers.

import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { atStandIn } from './fixtures/source-scene.ts';

const posts = {
  name: 'posts',
  address: 'http://localhost/api/posts',
  key: 'id',
  limits: { perSecond: 5_000 },
};

/** Outcome of each run of a source whose pages are answered by `serve`. */
async function runs(
  declaration: object,
  serve: (page: number, response: ServerResponse) => void,
  count = 1,
): Promise<readonly string[]> {
  const told: string[] = [];
  await atStandIn(declaration, {}, async (site, scene) => {
    site.serve = (request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
      if (pathname === '/api/posts') serve(Number(searchParams.get('page') ?? 1), response);
      else response.writeHead(404).end('{}');
    };
    for (let run = 0; run < count; run += 1) {
      const [outcome] = (await scene.run()).outcomes;
      const { status, tradesInAll, reason = '' } = outcome ?? {};
      told.push(`${status} ${tradesInAll} ${reason}`.trim());
    }
    assert.deepEqual(await scene.flaws(), []);
  });
  return told;
}

describe('the link to the next page', () => {
  for (const link of [
    '<?page=2>; rel="next"',
    '</api/posts?page=2>; title="a, b; rel=prev"; rel="next"',
    '</api/posts?page=9>; rel="prev", </api/posts?page=2>; rel="last next"',
    '</api/posts?page=9>; rel=nextsection, </api/posts?page=2>; REL=Next',
    '</api/posts?ids=1,2&page=2>; rel=next; type="text/html"',
  ]) {
    it(`is found in a header: ${link}`, async () => {
      const found = await runs({ ...posts, pages: { by: 'link' } }, (page, response) => {
        if (page === 1) response.setHeader('link', link);
        response.end(JSON.stringify([{ id: page }]));
      });
      assert.deepEqual(found, ['done 2']);
    });
  }

  it('is found in the answer, also by the next run', async () => {
    const pages = { by: 'link', next: 'links.next' };
    const found = await runs(
      { ...posts, records: 'results', pages },
      (page, response) => {
        const next = page === 3 ? null : `http://localhost/api/posts?page=${page + 1}`;
        response.end(JSON.stringify({ results: [{ id: page }], links: { next } }));
      },
      2,
    );
    assert.deepEqual(found, ['done 3', 'done 3']);
  });

  it('that is no text ends the run with its name', async () => {
    const [found = ''] = await runs(
      { ...posts, records: 'results', pages: { by: 'link', next: 'next' } },
      (page, response) => response.end(JSON.stringify({ results: [{ id: page }], next: page })),
    );
    assert.match(found, /^failed 0 .*posts: next: must be the address of the next page, got 1$/);
  });
});

describe('an API that refuses the page after its last one', () => {
  const byPage = { ...posts, pages: { by: 'page', page: 'page', size: 2 } };
  /** Pages of two records up to that number, then 404. */
  const upTo = (records: number) => (page: number, response: ServerResponse) => {
    const ids = [2 * page - 1, 2 * page].filter((id) => id <= records);
    if (ids.length === 0) response.writeHead(404).end('{"detail":"Invalid page."}');
    else response.end(JSON.stringify(ids.map((id) => ({ id }))));
  };

  it('has every record, whether its last page is whole or not', async () => {
    assert.deepEqual(await runs(byPage, upTo(4), 2), ['done 4', 'done 4']);
    assert.deepEqual(await runs(byPage, upTo(5), 2), ['done 5', 'done 5']);
  });

  it('or the offset after its last record: that is the end, too', async () => {
    const pages = { by: 'offset', offset: 'page', limit: 'limit', size: 2 };
    const found = await runs(
      { ...posts, pages },
      (from, response) => {
        const ids = [1, 2, 3, 4].slice(from, from + 2);
        response
          .writeHead(ids.length === 0 ? 404 : 200)
          .end(JSON.stringify(ids.map((id) => ({ id }))));
      },
      2,
    );
    assert.deepEqual(found, ['done 4', 'done 4']);
  });

  it('and all others too is not taken for one without news', async () => {
    let left = 4;
    const found = await runs(
      byPage,
      (page, response) => {
        left -= 1;
        upTo(left >= 0 ? 4 : 0)(page, response);
      },
      2,
    );
    assert.match(found.join('\n'), /^done 4\nfailed 4 .*page=1: 404 \{"detail"/);
  });
});

describe('the cursor of the next page', () => {
  it('is found in a header', async () => {
    const pages = { by: 'cursor', cursor: 'page', header: 'X-Next-Page' };
    const found = await runs(
      { ...posts, pages },
      (page, response) => {
        if (page < 3) response.setHeader('x-next-page', String(page + 1));
        response.end(JSON.stringify([{ id: page }]));
      },
      2,
    );
    assert.deepEqual(found, ['done 3', 'done 3']);
  });
});

describe('an answer', () => {
  it('may have null for a list without records', async () => {
    const pages = { by: 'page', page: 'page', size: 2 };
    const found = await runs(
      { ...posts, records: 'data.list', pages },
      (page, response) => {
        const ids = [2 * page - 1, 2 * page].filter((id) => id <= 3);
        const list = ids.length === 0 ? null : ids.map((id) => ({ id }));
        response.end(JSON.stringify({ data: { list } }));
      },
      2,
    );
    assert.deepEqual(found, ['done 3', 'done 3']);
  });

  it('without the list ends the run with its name, and no position of a cursor', async () => {
    const pages = { by: 'page', page: 'page', size: 2 };
    const found = await runs({ ...posts, records: 'data.list', pages }, (_page, response) => {
      response.end('{"data":null}');
    });
    assert.deepEqual(found, [
      'failed 0 posts: data.list: must be a list of records, got undefined',
    ]);
  });

  it('may be packed by any name of gzip', async () => {
    for (const coding of ['GZIP', 'x-gzip']) {
      const found = await runs({ ...posts, pages: { by: 'link' } }, (page, response) => {
        response.setHeader('content-encoding', coding);
        response.end(gzipSync(JSON.stringify([{ id: page }])));
      });
      assert.deepEqual(found, ['done 1'], coding);
    }
  });
});
