import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import { html, openFetcher, openSite, type Site } from './fetch-scene.ts';

const russian =
  'Вчера вечером в порту открыли старый склад, и жители города впервые увидели корабли, ' +
  'которые стояли там почти сто лет. ';
const japanese =
  'きのうの夕方、港の古い倉庫がひらかれて、町の人たちは百年ちかく眠っていた船をはじめて見ました。';
const chinese =
  '昨天傍晚，港口的旧仓库打开了，城里的居民第一次看到停在那里将近一百年的船只，大家都很高兴。';
const korean =
  '어제 저녁 항구의 오래된 창고가 열렸고 도시 주민들은 거의 백 년 동안 그곳에 있던 배를 처음으로 보았다. ';
const french =
  'Hier soir, au port, on a ouvert le vieil entrepôt, et les habitants ont découvert ' +
  '“l’été” des bateaux oubliés là-bas. ';

const czech =
  'Včera večer v přístavu otevřeli staré skladiště a obyvatelé města poprvé uviděli lodě, ' +
  'které tam stály téměř sto let. ';
const greek =
  'Χθες το βράδυ στο λιμάνι άνοιξαν την παλιά αποθήκη και οι κάτοικοι είδαν για πρώτη φορά ' +
  'τα πλοία που έμειναν εκεί εκατό χρόνια. ';

const tables = new Map<string, ReadonlyMap<string, readonly number[]>>();

/** The codes of an encoding that Node can only read, by what it reads them as. */
function codesOf(label: string): ReadonlyMap<string, readonly number[]> {
  const decoder = new TextDecoder(label);
  const codes = new Map<string, number[]>();
  const note = (...bytes: number[]) => {
    const char = decoder.decode(Uint8Array.from(bytes));
    if (char.length === 1 && char !== '\uFFFD' && !codes.has(char)) codes.set(char, bytes);
  };
  for (let first = 0; first < 256; first += 1) note(first);
  const wide = /jis|euc|gb/.test(label) ? 256 : 0;
  for (let first = 0x81; first < wide; first += 1) {
    for (let second = 0x40; second < 256; second += 1) note(first, second);
  }
  return codes;
}

function encode(text: string, label: string): Buffer {
  const codes = tables.get(label) ?? codesOf(label);
  tables.set(label, codes);
  return Buffer.from([...text].flatMap((char) => codes.get(char) ?? [0x3f]));
}

describe('the encoding of a page', () => {
  let site: Site;
  let fetcher: Fetcher;
  before(async () => {
    site = await openSite();
    fetcher = await openFetcher();
  });
  after(async () => {
    await fetcher.close();
    await site[Symbol.asyncDispose]();
  });

  const textOf = async (body: Uint8Array, type: string) => {
    site.pages.set('/', html(body, type));
    const answer = await fetcher.fetchArticle(`${site.url}/`);
    return answer.kind === 'article' ? answer.article.text : answer.kind;
  };
  const page = (words: string, head = '') =>
    `<html><head>${head}<title>x</title></head><body><article>
     <p>${words.repeat(6)}</p></article></body></html>`;
  const languages = [
    ...([
      ['windows-1251', russian],
      ['koi8-r', russian],
      ['shift_jis', japanese],
    ] as const),
    ...([
      ['euc-jp', japanese],
      ['gb18030', chinese],
      ['euc-kr', korean],
    ] as const),
    ['windows-1252', french],
    ['windows-1250', czech],
    ['iso-8859-7', greek],
  ] as const;

  it('is the one that the header names', async () => {
    for (const [label, words] of languages) {
      const text = await textOf(encode(page(words), label), `text/html; charset="${label}"`);
      assert.equal(text, words.repeat(6).trim(), label);
    }
  });

  it('is the one that the page names, in either way', async () => {
    for (const [label, words] of languages) {
      const old = `<meta http-equiv=Content-Type content="text/html; charset=${label}">`;
      for (const head of [`<meta charset=${label}>`, old]) {
        assert.equal(
          await textOf(encode(page(words, head), label), 'text/html'),
          words.repeat(6).trim(),
        );
      }
    }
  });

  it('is guessed when nobody names it', async () => {
    for (const [label, words] of languages) {
      const script = `<script>${'let a = 1; '.repeat(10_000)}</script>`;
      for (const head of ['', script]) {
        const text = await textOf(encode(page(words, head), label), 'text/html');
        assert.equal(text, words.repeat(6).trim(), label);
      }
    }
  });

  it('is found though the header, the page or both are wrong', async () => {
    const utf8 = (words: string, head?: string) => Buffer.from(page(words, head));
    const lie = 'text/html; charset=utf-8';
    for (const [label, words] of languages) {
      const expected = words.repeat(6).trim();
      const meta = `<meta charset=${label}>`;
      assert.equal(await textOf(encode(page(words, meta), label), lie), expected, label);
      assert.equal(await textOf(encode(page(words), label), lie), expected, label);
      assert.equal(await textOf(utf8(words, meta), `text/html; charset=${label}`), expected);
    }
    const unknown = 'text/html; charset=klingon';
    assert.equal(await textOf(utf8(french), unknown), french.repeat(6).trim());
    const wide = '<meta charset=utf-16>';
    assert.equal(await textOf(utf8(french, wide), 'text/html'), french.repeat(6).trim());
  });

  it('may be UTF-16, with and without a mark, and UTF-8 with one', async () => {
    const words = russian.repeat(6).trim();
    const little = Buffer.from(page(russian), 'utf16le');
    const big = Buffer.from(little).swap16();
    const mark = Buffer.from('\uFEFF', 'utf16le');
    const lie = 'text/html; charset=windows-1251';
    assert.equal(await textOf(Buffer.concat([mark, little]), lie), words);
    assert.equal(
      await textOf(Buffer.concat([Buffer.from(mark).swap16(), big]), 'text/html'),
      words,
    );
    assert.equal(await textOf(little, 'text/html; charset=utf-16'), words);
    assert.equal(await textOf(little, 'text/html'), words);
    assert.equal(await textOf(big, 'text/html; charset=utf-16be'), words);
    assert.equal(await textOf(Buffer.from(`\uFEFF${page(russian)}`), lie), words);
  });

  it('may be broken in places, which costs those places only', async () => {
    const body = Buffer.concat([Buffer.from(page(russian)), Uint8Array.of(0xd0)]);
    for (const type of ['text/html; charset=utf-8', 'text/html']) {
      assert.equal(await textOf(body, type), russian.repeat(6).trim());
    }
    const noise = Buffer.from(Array.from({ length: 4_000 }, (_, n) => ((n * 7919) % 251) + 1));
    assert.equal(typeof (await textOf(noise, 'text/html')), 'string');
  });
});
