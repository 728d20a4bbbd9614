import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import { binance } from '../src/connectors/binance.ts';
import { type Connector, type Cursor, idOf } from '../src/connectors/connector.ts';
import { declared } from '../src/connectors/declared.ts';
import { kraken } from '../src/connectors/kraken.ts';
import { inOrderOfId, writeRawFile } from '../src/files/raw-file.ts';
import { MemoryFolder } from './fixtures/memory-folder.ts';

let site: StandIn;
let krakenSite: Connector;
let binanceSite: Connector;
const { signal } = new AbortController();

before(async () => {
  site = await StandIn.open();
  krakenSite = declared(kraken, { baseUrl: site.url });
  binanceSite = declared(binance, { baseUrl: site.url });
});

after(async () => {
  await krakenSite[Symbol.asyncDispose]();
  await binanceSite[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});

/** As the exchange documents it, with ids that are not neighbours. */
const documented = [
  '["30243.40000","0.34507674",1688669597.8277369,"b","m","",61044952]',
  '["30243.30000","0.00376960",1688669598.2804112,"s","l","",61044953]',
  '["30243.30000","0.01235716",1688669602.698379,"s","m","",61044956]',
];

const tell = (trades: readonly string[], last: string): void =>
  site.tell(`{"error":[],"result":{"XXBTZUSD":[${trades.join(',')}],"last":"${last}"}}`);

const fetchFrom = (from: Cursor, to = 10 ** 9) =>
  krakenSite.source('XBTUSD', { from, to }).fetch({ from, to: undefined }, signal);

describe('Kraken trades', () => {
  it('are read by a cursor, and lead one nanosecond back from where they end', async () => {
    tell(documented, '1688669602698379123');
    const answer = await fetchFrom({ id: 1, since: '0' });
    assert.equal(site.asked.at(-1), 'GET /0/public/Trades?pair=XBTUSD&count=1000&since=0');
    const [page] = answer.rows;
    assert.deepEqual([...(page?.ids ?? [])], [61044952, 61044953, 61044956]);
    assert.deepEqual(
      [...(page?.timesUs ?? [])],
      [1688669597827737, 1688669598280411, 1688669602698379],
    );
    assert.equal(Buffer.from(page?.lines ?? []).toString(), `${documented.join('\n')}\n`);
    const since = '1688669602698379122';
    assert.deepEqual(answer.next, { id: 61044957, since, seen: [61044956] });
    assert.equal(answer.isEnd, false);
  });

  it('that were had before are left out; when none is new it is the end for now', async () => {
    tell(documented, '1688669602698379123');
    const since = '1688669598280411199';
    const answer = await fetchFrom({ id: 61044953, since });
    assert.deepEqual([...(answer.rows[0]?.ids ?? [])], [61044953, 61044956]);
    const next = { id: 61044957, since: '1688669602698379122', seen: [61044956] };
    tell(documented.slice(2), '1688669602698379123');
    assert.deepEqual(await fetchFrom(next), { rows: [], next, isEnd: true });
    tell([], next.since);
    assert.deepEqual(await fetchFrom(next), { rows: [], next, isEnd: true });
  });

  it('above the end are left for a harvest that asks for the same page again', async () => {
    tell(documented, '1688669602698379123');
    const answer = await fetchFrom({ id: 1, since: '5' }, 61044954);
    assert.deepEqual([...(answer.rows[0]?.ids ?? [])], [61044952, 61044953]);
    const seen = [61044952, 61044953];
    assert.deepEqual(answer.next, { id: 61044954, since: '5', seen });
    assert.equal(answer.isEnd, true);
    const source = krakenSite.source('XBTUSD', { to: 61044954 });
    assert.equal(source.pageAt({ id: 61044954, since: '5' }), undefined);
    assert.equal(source.pagesLeft?.({ id: 61044000, since: '5' }), 1);
  });

  it('of one moment that fill more than a page are an error, not an endless loop', async () => {
    const many = Array.from({ length: 1000 }, (_, at) => `["1.0","1.0",5.5,"b","l","",${at + 1}]`);
    tell(many, '5500000000');
    await assert.rejects(fetchFrom({ id: 1001, since: '5499999999' }), {
      code: 'EXCHANGE_CHANGED',
      message: /more than 1000 trades at 5500000000 ns/,
    });
  });

  it('whose ids are not in the order of time are all read, also at the end of a page', async () => {
    const trade = (id: number, at: number) => `["1.0","1.0",${at},"b","l","",${id}]`;
    tell([trade(1, 1), trade(4, 2)], '2000000000');
    const first = await fetchFrom({ id: 1, since: '0', seen: [] });
    tell([trade(4, 2), trade(2, 2), trade(3, 3), trade(5, 4)], '4000000000');
    const second = await fetchFrom(first.next as Cursor);
    const pages = [...first.rows, ...second.rows];
    assert.deepEqual(
      pages.map(({ ids }) => [...ids]),
      [
        [1, 4],
        [2, 3, 5],
      ],
    );
    const folder = new MemoryFolder();
    const of = { exchange: 'kraken', product: 'X', generation: 1, fence: 1, from: 1, to: 6 };
    const file = await writeRawFile(folder, of, inOrderOfId(pages));
    assert.deepEqual([file?.trades, file?.firstId, file?.lastId], [5, 1, 5]);
  });

  it('of an answer that is older than the question are asked for again', async () => {
    tell(documented.slice(0, 2), '1688669598280411200');
    const from = { id: 61044957, since: '1688669602698379122', seen: [61044956] };
    await assert.rejects(fetchFrom(from), { code: 'EXCHANGE_FAILED', retryable: true });
  });

  it('in another form are an error that names the field', async () => {
    tell(['[30243.4,"0.3",1.5,"b","m","",1]'], '1');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /trades\[0\]\[0\]: .*, got 30243.4$/);
    tell(['["30243.4","0.3",1.5,"x","m","",1]'], '1');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /trades\[0\]\[3\]: must be "b" or "s"/);
    tell(['["30243.4","0.3",1.5,"b","m",""]'], '1');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /trades\[0\]\[6\]: .*, got undefined$/);
    site.tell('{"error":[],"result":{"XXBTZUSD":[["1.0","1.0",5.5,"b","l","",1]],"last":7}}');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /result\.last: must be .*, got 7$/);
    site.tell('{"error":[],"result":{"A":[],"B":[],"last":"7"}}');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /result: must be one list and `last`/);
    site.tell('{"result":{}}');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /error: must be a list, got undefined/);
    site.tell('{"error":[]}');
    await assert.rejects(fetchFrom({ id: 1, since: '0' }), /result: must be an object/);
  });

  it('are found by JSON.parse too, where they are written otherwise', async () => {
    site.tell(
      '{ "error": ["WGeneral:fine"], "result": { "last": "9000000000", "P": [ ' +
        '["1.0", "2.5", 1.5e0, "s", "l", {}, 3] ] } }',
    );
    const { rows } = await fetchFrom({ id: 1, since: '0' });
    const [page] = rows;
    assert.equal(Buffer.from(page?.lines ?? []).toString(), '["1.0","2.5",1.5,"s","l",{},3]\n');
    assert.deepEqual([...(page?.timesUs ?? [])], [1_500_000]);
  });
});

describe('Kraken', () => {
  it('says what went wrong with status 200, and is understood', async () => {
    const faults: readonly [string, string, boolean][] = [
      ['EQuery:Unknown asset pair', 'PRODUCT_UNKNOWN', false],
      ['EGeneral:Too many requests', 'EXCHANGE_LIMITED', true],
      ['EAPI:Rate limit exceeded', 'EXCHANGE_LIMITED', true],
      ['EService:Unavailable', 'EXCHANGE_FAILED', true],
      ['EGeneral:Internal error', 'EXCHANGE_FAILED', true],
      ['EGeneral:Invalid arguments', 'EXCHANGE_REFUSED', false],
    ];
    for (const [text, code, retryable] of faults) {
      site.tell(JSON.stringify({ error: [text] }));
      await assert.rejects(krakenSite.latest('X', signal), { code, retryable });
    }
  });

  it('tells its pairs, the newest id, and where a time is', async () => {
    site.tell('{"error":[],"result":{"XXBTZUSD":{},"ADAUSD":{}}}');
    assert.deepEqual(await krakenSite.products(signal), ['ADAUSD', 'XXBTZUSD']);
    tell(documented.slice(2), '1688669602698379123');
    assert.equal(await krakenSite.latest('XBTUSD', signal), 61044956);
    const at = await krakenSite.positionAt('XBTUSD', 1_688_669_600_000_000n, signal);
    assert.deepEqual(at, { id: 61044956, since: '1688669599999999999', seen: [] });
    assert.equal(idOf(at), 61044956);
  });
});

describe('Binance trades', () => {
  const line = (id: number, time: number): string =>
    `{"id":${id},"price":"4.00000100","qty":"12.00000000","quoteQty":"48.000012",` +
    `"time":${time},"isBuyerMaker":true,"isBestMatch":true}`;

  it('are asked for from the lower end of their range, in microseconds', async () => {
    const lines = [line(28457, 1499865549590123), line(28458, 1499865549590)];
    site.tell(`[${lines.join(',')}]`);
    const source = binanceSite.source('BTCUSDT', { from: 28457, to: 28460 });
    const answer = await source.fetch({ from: 28457, to: 28460 }, signal);
    assert.equal(
      site.asked.at(-1),
      'GET /api/v3/historicalTrades?symbol=BTCUSDT&limit=3&fromId=28457',
    );
    assert.equal(site.headers['x-mbx-time-unit'], 'MICROSECOND');
    const [page] = answer.rows;
    // The second as one that ignores the header writes it: in milliseconds.
    assert.deepEqual([...(page?.timesUs ?? [])], [1499865549590123, 1499865549590000]);
    assert.equal(Buffer.from(page?.lines ?? []).toString(), `${lines.join('\n')}\n`);
    assert.deepEqual(answer.missing, [{ from: 28459, to: 28460 }]);
    site.tell(`[${lines[0]?.replace('true', '1')}]`);
    const changed = source.fetch({ from: 28457, to: 28460 }, signal);
    await assert.rejects(changed, /trades\[0\]\.isBuyerMaker: must be true or false, got 1$/);
  });

  it('begin at 0; the newest is known, and so are all symbols', async () => {
    assert.equal(binanceSite.start, 0);
    site.tell(`[${line(7, 1)}]`);
    assert.equal(await binanceSite.latest('BTCUSDT', signal), 7);
    site.tell('{"symbols":[{"symbol":"ETHUSDT"},{"symbol":"BTCUSDT"}]}');
    assert.deepEqual(await binanceSite.products(signal), ['BTCUSDT', 'ETHUSDT']);
    site.tell('{"symbols":[{}]}');
    await assert.rejects(binanceSite.products(signal), /symbols\[0\]\.symbol: must be a text/);
  });

  it('of an unknown symbol, or for one who was banned, are refused as such', async () => {
    site.tell('{"code":-1121,"msg":"Invalid symbol."}', 400);
    await assert.rejects(binanceSite.latest('X', signal), { code: 'PRODUCT_UNKNOWN', status: 404 });
    site.tell('{"code":-1102,"msg":"..."}', 400);
    await assert.rejects(binanceSite.latest('X', signal), {
      code: 'EXCHANGE_REFUSED',
      status: 400,
    });
    site.tell('{}', 418, { 'retry-after': '120' });
    await assert.rejects(binanceSite.latest('X', signal), {
      code: 'EXCHANGE_LIMITED',
      status: 429,
      retryAfterMs: 120_000,
    });
  });
});
