import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import Fastify from 'fastify';
import { html } from 'spillway-http';
import {
  ago,
  button,
  bytes,
  cells,
  decimal,
  duration,
  errorPage,
  field,
  gauge,
  kitAssets,
  kitUrls,
  lineChart,
  meter,
  percent,
  signed,
  spanBar,
  sparkline,
  table,
} from 'spillway-http/kit';
import { kitPage } from './fixtures/kit-page.ts';

function attributes(text: string, name: string): string[] {
  return [...text.matchAll(new RegExp(` ${name}="([^"]*)"`, 'g'))].map((match) => String(match[1]));
}

describe('numbers of the kit', () => {
  it('have commas, a true minus, and a dash where nothing is known', () => {
    assert.equal(decimal(1_234_567), '1,234,567');
    assert.equal(decimal(-1_234.567, 2), '−1,234.57');
    assert.equal(decimal(999.999, 2), '1,000.00');
    assert.equal(decimal(-0.001, 1), '0.0');
    assert.equal(decimal(undefined), '–');
    assert.equal(signed(1.8, 2), '+1.80');
    assert.equal(signed(-1), '−1');
    assert.equal(signed(0.001, 1), '0.0');
    assert.equal(percent(0.0061, 1), '0.6 %');
  });

  it('tell times and sizes in the unit that people use', () => {
    assert.deepEqual(
      [400, 4_000, 31_000, 1_860_000, 6_480_000, 86_400_000, 200_000_000].map(duration),
      ['400 ms', '4.0 s', '31 s', '31 min', '1.8 h', '24 h', '2 d'],
    );
    assert.deepEqual([0, 12_900, undefined].map(ago), ['now', '12 s ago', '–']);
    assert.deepEqual([999, 38_200_000_000, 1_500].map(bytes), ['999 B', '38.2 GB', '1.5 KB']);
  });
});

describe('parts of the kit', () => {
  it('have neither inline style nor inline script, so that a strict policy can stand', () => {
    const text = String(kitPage());
    assert.deepEqual(attributes(text, 'style'), []);
    assert.doesNotMatch(text, /\son\w+=|<style|<script(?![^>]* src=)|javascript:|data:/);
  });

  it('give each name and each identifier once', () => {
    const ids = attributes(String(kitPage()), 'id');
    assert.deepEqual(ids.length, new Set(ids).size);
  });

  it('escape all that is given to them', () => {
    const evil = '"><script>alert(1)</script>';
    const shown = [
      button({ label: evil, href: `/${evil}` }),
      field({ name: 'a', label: evil, value: evil, hint: evil, error: evil }),
      meter({ share: 0.5, label: evil }),
      errorPage({ status: 404, code: evil, title: evil, text: evil, requestId: evil }),
      lineChart({ label: evil, lines: [{ name: evil, points: [[0, 1]] }] }),
      table({ label: evil, columns: [{ name: evil, cell: () => evil }], rows: [1] }),
    ];
    assert.doesNotMatch(shown.join(''), /<script>/);
  });

  it('keep what was typed, and tie hint and error to their field', () => {
    const shown = field({ name: 'n', label: 'N', value: '81', hint: 'h', error: 'wrong' });
    const text = String(shown);
    assert.match(text, /value="81"/);
    assert.match(text, /aria-invalid="true"[^>]* aria-describedby="n-error n-hint"/);
    assert.match(text, /<p class="error" id="n-error">wrong<\/p>/);
    const plain = String(field({ name: 'n', label: 'N' }));
    assert.doesNotMatch(plain, /aria-|required/);
  });

  it('say why a button cannot be used', () => {
    const text = String(button({ label: 'Purge', disabledBecause: 'It still runs' }));
    assert.match(text, /disabled[\s\S]*title="It still runs"/);
  });
});

describe('a table of the kit', () => {
  const columns = [
    { name: 'Name', cell: (row: number) => `row ${row}`, sort: 'name' },
    { name: 'Size', cell: (row: number) => row, numeric: true, sort: 'size' },
  ] as const;
  const rows = [3, 1];
  const sortHref = (by: string, descending: boolean) => `?by=${by}&down=${descending}`;

  it('is sorted by links: numbers from the largest, and the other way at a second press', () => {
    const first = String(table({ label: 'T', columns, rows, sortHref }));
    assert.deepEqual(attributes(first, 'href'), [
      '?by=name&amp;down=false',
      '?by=size&amp;down=true',
    ]);
    assert.deepEqual(attributes(first, 'aria-sort'), []);
    const sorted = { by: 'size', descending: true };
    const again = String(table({ label: 'T', columns, rows, sortHref, sorted }));
    assert.deepEqual(attributes(again, 'aria-sort'), ['descending']);
    assert.equal(attributes(again, 'href')[1], '?by=size&amp;down=false');
  });

  it('keeps its roles and names its cells, for when its rows are blocks', () => {
    const text = String(table({ label: 'T', columns, rows }));
    assert.equal(text.match(/role="row"/g)?.length, 3);
    assert.equal(text.match(/role="rowheader"/g)?.length, 2);
    assert.deepEqual(attributes(text, 'data-name'), ['Size', 'Size']);
  });
});

describe('bars of the kit', () => {
  it('are as long as their share, and never longer than their place', () => {
    assert.deepEqual(attributes(String(meter({ share: 0.625 })), 'width'), ['62.5%']);
    assert.deepEqual(attributes(String(meter({ share: 3 })), 'width'), ['100%']);
    assert.deepEqual(attributes(String(meter({ share: Number.NaN })), 'width'), ['0%']);
    const bar = String(spanBar({ value: -1.2, from: -2.94, to: 2.94, label: 'x' }));
    assert.deepEqual(attributes(bar, 'x')[0], '29.6%');
    assert.deepEqual(attributes(bar, 'width')[1], '20.4%');
    const high = String(gauge({ value: 9, error: [8, 12], scale: [-2, 6], label: 'x' }));
    assert.deepEqual(attributes(high, 'cx'), ['100%']);
  });

  it('count up to 32 cells one by one, and show more as a share', () => {
    const few = cells(['on', 'free'], 'one of two');
    assert.equal(String(few).match(/<i/g)?.length, 2);
    const many = cells(
      Array.from({ length: 40 }, (_, at) => (at < 10 ? 'on' : 'free')),
      'x',
    );
    assert.deepEqual(attributes(String(many), 'width'), ['25%']);
  });

  it('draw a sparkline from zero to the limit', () => {
    const text = String(sparkline({ values: [0, 5, 20], label: 'x', max: 10 }));
    assert.equal(attributes(text, 'd')[1], 'M0 100L500 50L1000 0');
    assert.deepEqual(attributes(String(sparkline({ values: [], label: 'x' })), 'd'), ['', '']);
  });
});

describe('a line chart of the kit', () => {
  it('names its bounds, breaks where nothing is known, and can be read as a table', () => {
    const text = String(
      lineChart({
        label: 'Rises',
        lines: [
          {
            name: 'a',
            points: [
              [0, 0],
              [1, 5],
              [2, undefined],
              [3, 10],
            ],
          },
        ],
        range: [0, 10],
        domain: [0, 4],
        room: 0,
        bounds: [{ y: 8, label: '8 permitted', kind: 'limit' }],
      }),
    );
    assert.match(text, /role="img" aria-label="Rises"/);
    assert.match(text, />8 permitted</);
    assert.ok(attributes(text, 'd').includes('M0 100L250 50M750 0'), text);
    assert.equal(text.match(/<tr>/g)?.length, 5);
    const points = attributes(text, 'data-points')[0]?.replaceAll('&quot;', '"') ?? '';
    assert.deepEqual(JSON.parse(points)[2], [50, '2: –']);
  });

  it('shows nothing, one point and a flat line without a wrong number', () => {
    for (const points of [
      [],
      [[1, 1]],
      [
        [0, 0],
        [1, 0],
      ],
    ] as const) {
      const text = String(lineChart({ label: 'x', lines: [{ name: 'a', points: [...points] }] }));
      assert.doesNotMatch(text, /NaN|Infinity/, JSON.stringify(points));
    }
  });

  it('draws a hundred thousand points as a few hundred, the last one included', () => {
    const points = Array.from({ length: 100_000 }, (_, at) => [at, at % 100] as const);
    const text = String(lineChart({ label: 'x', lines: [{ name: 'a', points }] }));
    assert.ok(text.length < 60_000, `${text.length} characters`);
    assert.match(text, /99,999: 99/);
  });
});

describe('an error page of the kit', () => {
  it('says what happened, tries again by itself, and folds the code away', () => {
    const options = { status: 503, code: 'LANE_FULL', requestId: 'r-1', retrySeconds: 4.2 };
    const text = String(errorPage(options));
    assert.match(text, /<h1 id="fault">Busy for a moment<\/h1>/);
    assert.match(text, /http-equiv="refresh" content="5"/);
    assert.match(text, /<details[\s\S]*LANE_FULL[\s\S]*r-1[\s\S]*<\/details>/);
    const missing = String(errorPage({ status: 404, code: 'NOT_FOUND', text: html`<b>x</b>` }));
    assert.doesNotMatch(missing, /refresh/);
    assert.match(missing, /<b>x<\/b>/);
  });

  it('has words for every status', () => {
    for (const status of [
      400, 401, 402, 403, 404, 409, 413, 418, 422, 429, 500, 502, 503, 504, 507,
    ]) {
      const text = String(errorPage({ status, code: 'X' }));
      assert.match(text, new RegExp(`<p class="code quiet">${status} · \\w`));
    }
  });
});

describe('files of the kit', () => {
  it('are kept by browsers for good, under names that change with their content', async () => {
    const app = Fastify();
    await app.register(kitAssets);
    for (const [url, type] of [
      [kitUrls.style, 'text/css'],
      [kitUrls.script, 'text/javascript'],
      [kitUrls.icon, 'image/svg'],
    ] as const) {
      assert.match(url, /^\/_kit\/\w+\.[0-9a-f]{12}\.\w+$/);
      const answer = await app.inject(url);
      assert.equal(answer.statusCode, 200);
      assert.ok(String(answer.headers['content-type']).startsWith(type));
      assert.match(String(answer.headers['cache-control']), /immutable/);
      const headers = { 'if-none-match': String(answer.headers.etag) };
      assert.equal((await app.inject({ url, headers })).statusCode, 304);
      const other = await app.inject(url.replace(/[0-9a-f]{12}/, '0123456789ab'));
      assert.equal(other.body, answer.body);
      assert.equal(other.headers['cache-control'], 'no-cache');
    }
    assert.equal((await app.inject('/_kit/other.css')).statusCode, 404);
  });
});
