import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { seededRandom } from 'spillway';
import { UploadBody } from '../src/files/upload-body.ts';

/** Feeds a text in pieces that end where the numbers say. */
function read(text: string, ends: readonly number[] = []) {
  const upload = new UploadBody();
  const bytes = Buffer.from(text);
  const games: Buffer[] = [];
  let start = 0;
  for (const end of [...ends, bytes.length]) {
    games.push(...upload.take(bytes.subarray(start, end)));
    start = end;
  }
  const rest = upload.end();
  return { rest, games: Buffer.concat(games), fault: upload.gamesFault };
}

describe('the body of an upload', () => {
  it('gives the same however it is cut, and wherever its games stand', () => {
    const random = seededRandom(11);
    for (let round = 0; round < 500; round += 1) {
      const wanted = Buffer.from(Array.from({ length: random() * 40 }, () => random() * 256));
      const base64 = wanted.toString('base64');
      const pgn = random() < 0.3 ? base64.replaceAll('/', '\\/') : base64;
      const parts = [
        '"a":{"pgn":"no","x":["pgn",{"pgn":"\\"}"}]}',
        '"b\\"":"\\\\","é":"pgn:\\""',
        `"pgn"${random() < 0.5 ? ' :\n' : ':'}"${pgn}"`,
        '"list":[1,2.5e3,null,true,"}{"]',
      ].sort(() => random() - 0.5);
      const text = ` {${parts.join(' , ')}} `;
      const length = Buffer.byteLength(text);
      const cuts = Array.from({ length: random() * 12 }, () => Math.floor(random() * length));
      const { rest, games, fault } = read(
        text,
        cuts.sort((a, b) => a - b),
      );
      assert.deepEqual(rest, { ...JSON.parse(text), pgn: '' });
      assert.deepEqual(games, wanted);
      assert.equal(fault, undefined);
    }
  });

  it('leaves games alone that are not at the top, and those that are no text', () => {
    for (const text of [
      '{"pgn":5}',
      '[{"pgn":"AAAA"}]',
      '["pgn","AAAA"]',
      '{"x":{"pgn":"AAAA"}}',
    ]) {
      const { rest, games } = read(text);
      assert.deepEqual([rest, games.length], [JSON.parse(text), 0]);
    }
  });

  it('notes what is no base64, and still reads the rest', () => {
    for (const pgn of [
      'A',
      'AAA',
      'AA=A',
      '====',
      'AAAA=',
      'AA==AAAA',
      'AA AA',
      'AA-_',
      'A\\n==',
    ]) {
      for (const ends of [[], [10], [8, 9, 10, 11]]) {
        const { rest, fault } = read(`{"pgn":"${pgn}","x":1}`, ends);
        assert.deepEqual([rest, fault], [{ pgn: '', x: 1 }, 'pgn is not base64'], pgn);
      }
    }
    assert.equal(read('{"pgn":""}').fault, undefined);
  });

  it('holds no more memory if it comes byte by byte', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const held = (): number => {
      collect();
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      return heapUsed + arrayBuffers;
    };
    const uploads = Array.from({ length: 2 }, () => new UploadBody());
    const before = held();
    const byte = Buffer.from(' ');
    for (const upload of uploads) {
      for (let at = 0; at < 1_000_000; at += 1) upload.take(byte);
    }
    const more = held() - before;
    assert.ok(more < 10_000_000, `${more} bytes`);
    for (const upload of uploads) {
      upload.take(Buffer.from('{"a":1}'));
      assert.deepEqual(upload.end(), { a: 1 });
    }
  });

  it('refuses what is no JSON, has games twice, or is long besides them', () => {
    for (const text of ['', '{', '{"pgn":"AAAA', '{"pgn":"AAAA"', '{"pgn""AAAA"}', '}{']) {
      assert.throws(() => read(text), { code: 'REQUEST_REFUSED' }, text);
    }
    assert.throws(() => read('{"pgn":"","pgn":""}'), { code: 'REQUEST_REFUSED' });
    const long = `{"x":"${'x'.repeat(1_048_576)}"}`;
    assert.throws(() => read(long), { code: 'REQUEST_TOO_LARGE', status: 413 });
  });
});
