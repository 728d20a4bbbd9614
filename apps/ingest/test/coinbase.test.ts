import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type HarvestAnswer, type Random, seededRandom } from 'spillway';
import { StandIn } from 'spillway-fixtures/stand-in';
import { coinbase } from '../src/connectors/coinbase.ts';
import type { Connector, TradePosition } from '../src/connectors/connector.ts';
import { declared } from '../src/connectors/declared.ts';
import type { TradePage } from '../src/connectors/page.ts';

type Trade = Record<string, unknown>;

let site: StandIn;
let connector: Connector;
const { signal } = new AbortController();

before(async () => {
  site = await StandIn.open();
  connector = declared(coinbase, { baseUrl: site.url });
});

after(async () => {
  await connector[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});

const one = (id: number): Trade => ({
  trade_id: id,
  side: id % 3 === 0 ? 'buy' : 'sell',
  size: `0.${String(id).padStart(8, '0')}`,
  price: `${6000 + id}.48`,
  time: `2020-03-${10 + (id % 20)}T1${id % 10}:2${id % 7}:57.83389${id % 2}Z`,
});

const page = (from: number, to: number) =>
  connector.source('BTC-USD', { from, to }).fetch({ from, to }, signal);

function text({ rows }: HarvestAnswer<TradePage, TradePosition>): string {
  return rows.map(({ lines }) => Buffer.from(lines).toString()).join('');
}

describe('Coinbase trades', () => {
  it('are known up to the newest, also where more come than were asked for', async () => {
    site.tell(JSON.stringify([9, 8, 7].map(one)));
    assert.equal(await connector.latest('BTC-USD', signal), 9);
  });

  it('are asked for from the upper end of their range, as many as there are ids', async () => {
    site.tell(JSON.stringify([one(2500), one(1000)]));
    const source = connector.source('BTC-USD', { to: 2501 });
    const pages = [source.pageAt(1), source.pageAt(2001), source.pageAt(2501)];
    assert.deepEqual(pages, [{ from: 1, to: 1001 }, { from: 2001, to: 2501 }, undefined]);
    assert.equal(source.pagesLeft?.(1), 3);
    assert.equal(source.name, 'coinbase/BTC-USD');
    site.asked.length = 0;
    for (const asked of pages) if (asked !== undefined) await source.fetch(asked, signal);
    assert.deepEqual(site.asked, [
      'GET /products/BTC-USD/trades?limit=1000&after=1001',
      'GET /products/BTC-USD/trades?limit=500&after=2501',
    ]);
    assert.equal(site.headers['user-agent'], 'spillway-ingest/0.1');
  });

  it('come newest first and are kept oldest first, each line as it was written', async () => {
    const lines = [7, 6, 5].map((id) => JSON.stringify(one(id)));
    site.tell(`[${lines.join(',')}]`);
    const answer = await page(5, 8);
    const [trades] = answer.rows;
    assert.deepEqual([...(trades?.ids ?? [])], [5, 6, 7]);
    assert.deepEqual(trades?.timesUs, Float64Array.from([5, 6, 7], usOf));
    assert.equal(text(answer), `${lines.toReversed().join('\n')}\n`);
    assert.deepEqual(answer.missing, []);
  });

  it('are kept whole where the border between two of them is also within one', async () => {
    for (const note of ['},{', [{ a: 1 }, { a: 2 }], '"},{"']) {
      const lines = [7, 6, 5].map((id) => JSON.stringify({ ...one(id), note }));
      site.tell(`[${lines.join(',')}]`);
      assert.equal(text(await page(5, 8)), `${lines.toReversed().join('\n')}\n`);
    }
  });

  it('outside of the range are left out; ids within it that did not come are missing', async () => {
    site.tell(JSON.stringify([14, 12, 12, 9, 8, 3].map(one)));
    const answer = await page(7, 14);
    assert.deepEqual([...(answer.rows[0]?.ids ?? [])], [8, 9, 12]);
    assert.deepEqual(answer.missing, [
      { from: 7, to: 8 },
      { from: 10, to: 12 },
      { from: 13, to: 14 },
    ]);
    site.tell('[]');
    assert.deepEqual(await page(7, 14), { rows: [], missing: [{ from: 7, to: 14 }] });
  });

  it('of which none came are asked for once more before they are a gap', async () => {
    const lines = [JSON.stringify([3, 2, 1].map(one)), JSON.stringify([13, 12, 11].map(one))];
    site.serve = (_request, response) => void response.end(lines.shift());
    const answer = await page(11, 14);
    assert.deepEqual([[...(answer.rows[0]?.ids ?? [])], answer.missing], [[11, 12, 13], []]);
  });

  it('are found however they are written', async () => {
    const random = seededRandom(20);
    for (let round = 0; round < 40; round += 1) {
      const ids = Array.from({ length: 30 }, (_, at) => at + 1).sort(() => random() - 0.5);
      const isPlain = round % 2 === 0;
      const list = ids.map((id) => rewritten(one(id), isPlain, random));
      site.tell(`${space(random)}[${list.join(`${space(random)},`)}]${space(random)}`);
      const answer = await page(1, 31);
      const lines = text(answer).trimEnd().split('\n');
      assert.equal(lines.length, 30);
      for (const [at, line] of lines.entries()) {
        const { extra: _extra, ...trade } = JSON.parse(line);
        assert.deepEqual(trade, one(at + 1));
      }
      const expected = Array.from({ length: 30 }, (_, at) => usOf(at + 1));
      assert.deepEqual([...(answer.rows[0]?.timesUs ?? [])], expected);
    }
  });

  it('with a key that comes twice are what JSON.parse makes of them', async () => {
    const twice = JSON.stringify(one(1)).replace('"side"', '"price":"1.5","side"');
    site.tell(`[${twice}]`);
    const { price, ...rest } = JSON.parse(text(await page(1, 2)));
    assert.deepEqual({ price, ...rest }, one(1));
    assert.equal(text(await page(1, 2)).match(/price/g)?.length, 1);
  });

  it('are not taken when a field has changed: the error names field and value', async () => {
    const changes: readonly [Trade, string][] = [
      [{ price: 6268.48 }, 'trades[1].price: must be a decimal in quotes .*, got 6268.48$'],
      [{ price: '1e-30' }, 'trades[1].price: must be .* 18 after the point'],
      [{ price: '1e' }, "trades[1].price: .*, got '1e'$"],
      [{ price: '-1.0' }, "trades[1].price: .*, got '-1.0'$"],
      [{ size: null }, 'trades[1].size: .*, got null$'],
      [{ size: '0.1234567890123456789' }, 'trades[1].size: must be .* 18 after the point'],
      [{ size: '123456789012345678901' }, 'trades[1].size: must be .* 20 digits'],
      [{ trade_id: '86326522' }, "trades[1].trade_id: must be a whole number .*, got '86326522'$"],
      [{ trade_id: 2.5 }, 'trades[1].trade_id: .*, got 2.5$'],
      [{ trade_id: 2 ** 53 }, 'trades[1].trade_id: .*, got 9007199254740992$'],
      [{ side: 'BUY' }, 'trades[1].side: must be "buy" or "sell", got \'BUY\'$'],
      [{ time: 1584663777 }, 'trades[1].time: must be a UTC time in quotes, .*, got 1584663777$'],
      [{ time: '2020-02-30T00:00:00Z' }, 'trades[1].time: .*02-30'],
      [{ time: '2020-03-20T24:00:00Z' }, 'trades[1].time: .*T24'],
      [{ time: '2020-03-20T00:00:60Z' }, 'trades[1].time: .*:60Z'],
      [{ time: '2020-03-20T00:22:57+01:00' }, "trades[1].time: .*01:00'$"],
      [{ time: undefined }, 'trades[1].time: .*, got undefined$'],
    ];
    for (const [change, message] of changes) {
      site.tell(JSON.stringify([one(1), { ...one(2), ...change }]));
      const fault = { code: 'EXCHANGE_CHANGED', retryable: false };
      const expected = new RegExp(message.replaceAll(/[[\]]/g, '\\$&'));
      await assert.rejects(page(1, 3), { ...fault, message: expected }, message);
    }
    site.tell('{"message":"moved"}');
    await assert.rejects(page(1, 3), /coinbase: trades: must be a list, got /);
    site.tell('[1]');
    await assert.rejects(page(1, 3), /coinbase: trades\[0\]: must be an object, got 1/);
  });

  it('with an exponent in a number are kept with its digits', async () => {
    site.tell(JSON.stringify([{ ...one(1), price: '1e-8', size: '2.5E3' }]));
    const { price, size, ...rest } = JSON.parse(text(await page(1, 2)));
    const { price: _price, size: _size, ...expected } = one(1);
    assert.deepEqual([price, size, rest], ['0.00000001', '2500', expected]);
  });

  it('that are not JSON are asked for again', async () => {
    const whole = JSON.stringify([one(1), one(2)]);
    const bodies = [
      '',
      '<html></html>',
      whole.slice(0, -1),
      `${whole}]`,
      `${whole}x`,
      '[{"a":1}x]',
    ];
    for (const body of [...bodies, Buffer.from([0x22, 0xff, 0x22])]) {
      site.tell(body);
      await assert.rejects(page(1, 3), { code: 'EXCHANGE_FAILED', status: 502, retryable: true });
    }
  });
});

describe('Coinbase', () => {
  it('tells the newest id, or that there is none', async () => {
    site.tell(JSON.stringify([one(86_326_522)]));
    assert.equal(await connector.latest('BTC-USD', signal), 86_326_522);
    assert.equal(site.asked.at(-1), 'GET /products/BTC-USD/trades?limit=1');
    site.tell('[]');
    assert.equal(await connector.latest('BTC-USD', signal), undefined);
  });

  it('tells all products, sorted', async () => {
    site.tell('[{"id":"ETH-USD"},{"id":"BTC-USD","status":"online"}]');
    assert.deepEqual(await connector.products(signal), ['BTC-USD', 'ETH-USD']);
    site.tell('[{"id":"ETH-USD"},{"id":7}]');
    await assert.rejects(connector.products(signal), /products\[1\]\.id: must be a text, got 7/);
  });

  it('runs what no harvest runs under the guard it was given', async () => {
    const guarded: string[] = [];
    await using careful = declared(coinbase, {
      baseUrl: site.url,
      guard: (request, caller) => {
        guarded.push('asked');
        return request(caller);
      },
    });
    site.tell(JSON.stringify([one(1)]));
    await careful.latest('BTC-USD', signal);
    await careful.source('BTC-USD', { to: 2 }).fetch({ from: 1, to: 2 }, signal);
    assert.deepEqual(guarded, ['asked']);
  });
});

function usOf(id: number): number {
  const ms = Date.UTC(2020, 2, 10 + (id % 20), 10 + (id % 10), 20 + (id % 7), 57);
  return ms * 1000 + 833_890 + (id % 2);
}

function space(random: Random): string {
  return ['', '', ' ', '\n', '\r\n\t'][Math.floor(random() * 5)] as string;
}

/** The same trade otherwise: order of keys, space, more fields and, if not plain, escapes. */
function rewritten(trade: Trade, isPlain: boolean, random: Random): string {
  const plainExtras = ['null', 'true', '12.5', '-3', '""', '"a b"'];
  const extras = ['{"a":[1,"}"]}', '"é"', '-1.5e3', '[]', '"a\\"b"'];
  const fields = Object.entries(trade).map(([key, value]) => {
    const json = JSON.stringify(value);
    const isEscaped = !isPlain && random() < 0.02 && typeof value === 'string';
    return [`"${key}"`, isEscaped ? json.replace(/\w/, escaped) : json];
  });
  if (random() < 0.1) {
    const known = isPlain ? plainExtras : extras;
    fields.push(['"extra"', known[Math.floor(random() * known.length)] as string]);
  }
  if (random() < 0.5) fields.sort(() => random() - 0.5);
  const s = (): string => (random() < 0.2 ? space(random) : '');
  const list = fields.map(([key, value]) => `${s()}${key}${s()}:${s()}${value}${s()}`);
  return `{${list.join(',')}}`;
}

function escaped(letter: string): string {
  return `\\u00${letter.charCodeAt(0).toString(16)}`;
}
