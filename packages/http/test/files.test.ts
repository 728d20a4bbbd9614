import assert from 'node:assert/strict';
import { utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ask, FileScene } from './file-scene.ts';

const escapes = [
  '../secret.txt',
  'sub/../../secret.txt',
  './../secret.txt',
  '%2e%2e/secret.txt',
  '%2e%2e%2fsecret.txt',
  '..%2fsecret.txt',
  '..%2Fsecret.txt',
  'sub%2f..%2f..%2fsecret.txt',
  '%252e%252e%252fsecret.txt',
  '%252e%252e/secret.txt',
  '%25252e%25252e%25252fsecret.txt',
  '..\\secret.txt',
  '..%5csecret.txt',
  '%2e%2e%5csecret.txt',
  'sub\\..\\..\\secret.txt',
  '..%255csecret.txt',
  '.%00./secret.txt',
  '%00../secret.txt',
  'a.txt%00',
  'a.txt%00.js',
  '../secret.txt%00.txt',
  '..%c0%afsecret.txt',
  '%c0%ae%c0%ae/secret.txt',
  '%uff0e%uff0e/secret.txt',
  '..;/secret.txt',
  '....//secret.txt',
  '../public-not/secret.txt',
  '/etc/passwd',
  '//etc/passwd',
  '%2fetc%2fpasswd',
  'file:///etc/passwd',
  'link.txt',
  'out/secret.txt',
  'env.txt',
  '.env',
  '%2eenv',
  '.git/config',
  '%2egit/config',
  'sub/.hidden',
  'sub/%2ehidden',
  '.',
  '..',
  '',
  'sub',
  'sub/',
  'a.txt/',
  'a.txt/.',
  'nothing.txt',
  '%',
  '%zz',
  '%ff',
  'x'.repeat(5_000),
];

describe('files', () => {
  it('are not given from outside their folder, nor hidden ones, whatever is asked', async () => {
    await using scene = await FileScene.open();
    const port = await scene.listen();
    for (const mount of ['/assets/', '/files/']) {
      for (const name of ['a.txt', 'sub/b%20c.txt', 'same.txt', '%61.txt']) {
        assert.equal((await ask(port, mount + name)).status, 200, mount + name);
      }
      for (const attempt of escapes) {
        const { status, body } = await ask(port, mount + attempt);
        const isRefused = [400, 403, 404, 414].includes(status);
        assert.ok(isRefused, `${mount}${attempt} was answered ${status}`);
        assert.doesNotMatch(body, /^secret|root:/, mount + attempt);
      }
    }
    for (const path of ['/assets/../../secret.txt', '/../secret.txt', '/files/../assets/.env']) {
      const { status, body } = await ask(port, path);
      assert.ok([400, 403, 404].includes(status), `${path} was answered ${status}`);
      assert.notEqual(body, 'secret');
    }
  });

  it('are kept by clients for good if their name has a hash, else for a day', async () => {
    await using scene = await FileScene.open();
    const cacheOf = async (name: string) =>
      (await scene.app.inject(`/assets/${name}`)).headers['cache-control'];
    assert.equal(await cacheOf('app.3f2a9c1b.js'), 'public, max-age=31536000, immutable');
    assert.equal(await cacheOf('a.txt'), 'public, max-age=86400');
    assert.equal(await cacheOf('report-20260101.txt'), 'public, max-age=86400');
  });

  it('are not sent again to a client that has them', async () => {
    await using scene = await FileScene.open();
    for (const path of ['/assets/a.txt', '/files/a.txt']) {
      const first = await scene.app.inject(path);
      assert.equal(first.body, '0123456789');
      const etag = String(first.headers.etag);
      const date = String(first.headers['last-modified']);
      const known = [
        { 'if-none-match': etag },
        { 'if-none-match': `"other", ${etag}` },
        { 'if-none-match': '*' },
        { 'if-modified-since': date },
        { 'if-none-match': etag, 'if-modified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' },
      ];
      for (const headers of known) {
        const again = await scene.app.inject({ url: path, headers });
        assert.deepEqual([again.statusCode, again.body], [304, ''], JSON.stringify(headers));
        assert.equal(again.headers.etag, etag);
      }
      const unknown = [
        { 'if-none-match': '"other"' },
        { 'if-none-match': '"other"', 'if-modified-since': date },
        { 'if-modified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' },
        { 'if-modified-since': 'yesterday' },
      ];
      for (const headers of unknown) {
        const again = await scene.app.inject({ url: path, headers });
        assert.equal(again.statusCode, 200, JSON.stringify(headers));
      }
      const failed = await scene.app.inject({ url: path, headers: { 'if-match': '"other"' } });
      assert.equal(failed.statusCode, 412);
      const head = await scene.app.inject({ method: 'HEAD', url: path });
      assert.deepEqual([head.statusCode, head.headers['content-length']], [200, '10']);
      assert.deepEqual([head.body, head.headers.etag], ['', etag]);
    }
  });

  it('get another version when they are written to, even with the same size and time', async () => {
    await using scene = await FileScene.open();
    const path = join(scene.folder, 'a.txt');
    await utimes(path, 1_000, 1_000);
    const before = await scene.app.inject('/files/a.txt');
    await writeFile(path, '9876543210');
    await utimes(path, 1_000, 1_000);
    const after = await scene.app.inject('/files/a.txt');
    assert.equal(before.headers['last-modified'], after.headers['last-modified']);
    assert.notEqual(before.headers.etag, after.headers.etag);
    const range = { range: 'bytes=0-1', 'if-range': String(before.headers.etag) };
    const resumed = await scene.app.inject({ url: '/files/a.txt', headers: range });
    assert.deepEqual([resumed.statusCode, resumed.body], [200, '9876543210']);
  });
});

const ranges: readonly (readonly [header: string, status: number, body: string, range?: string])[] =
  [
    ['bytes=0-0', 206, '0', 'bytes 0-0/10'],
    ['bytes=2-4', 206, '234', 'bytes 2-4/10'],
    ['bytes=7-', 206, '789', 'bytes 7-9/10'],
    ['bytes=7-99', 206, '789', 'bytes 7-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=-99', 206, '0123456789', 'bytes 0-9/10'],
    ['bytes=0-9', 206, '0123456789', 'bytes 0-9/10'],
    ['bytes=10-', 416, '', 'bytes */10'],
    ['bytes=99999999999999999999999-', 416, '', 'bytes */10'],
    ['bytes=-0', 416, '', 'bytes */10'],
    ['bytes=0-1,4-5', 200, '0123456789'],
    ['bytes=4-2', 200, '0123456789'],
    ['bytes=', 200, '0123456789'],
    ['bytes=-', 200, '0123456789'],
    ['bytes=a-b', 200, '0123456789'],
    ['bytes=1', 200, '0123456789'],
    ['bytes=0x1-2', 200, '0123456789'],
    ['lines=1-2', 200, '0123456789'],
  ];

describe('ranges', () => {
  for (const [header, status, body, range] of ranges) {
    it(`${header} of a file is answered ${status}`, async () => {
      await using scene = await FileScene.open();
      const headers = { range: header };
      const answer = await scene.app.inject({ url: '/files/a.txt', headers });
      assert.equal(answer.statusCode, status);
      assert.equal(answer.headers['content-range'], range);
      if (status === 416) assert.equal(answer.json().code, 'RANGE_REFUSED');
      else assert.equal(answer.body, body);
    });
  }

  it('are given only of the version that the client has a part of', async () => {
    await using scene = await FileScene.open();
    const { etag, 'last-modified': date } = (await scene.app.inject('/files/a.txt')).headers;
    const statusFor = async (value: string) => {
      const headers = { range: 'bytes=2-4', 'if-range': value };
      return (await scene.app.inject({ url: '/files/a.txt', headers })).statusCode;
    };
    assert.equal(await statusFor(String(etag)), 206);
    assert.equal(await statusFor(String(date)), 206);
    assert.equal(await statusFor(`W/${etag}`), 200);
    assert.equal(await statusFor('"other"'), 200);
    assert.equal(await statusFor('Thu, 01 Jan 1970 00:00:00 GMT'), 200);
  });

  it('of an empty file do not exist', async () => {
    await using scene = await FileScene.open();
    const get = (range: string) =>
      scene.app.inject({ url: '/files/empty.txt', headers: { range } });
    assert.equal((await get('bytes=0-')).statusCode, 416);
    assert.equal((await get('bytes=-1')).statusCode, 200);
    assert.equal((await scene.app.inject('/files/empty.txt')).headers['content-length'], '0');
  });

  it('of assets are served too', async () => {
    await using scene = await FileScene.open();
    const headers = { range: 'bytes=2-4' };
    const part = await scene.app.inject({ url: '/assets/a.txt', headers });
    assert.deepEqual([part.statusCode, part.body], [206, '234']);
    const beyond = { range: 'bytes=10-' };
    assert.equal(
      (await scene.app.inject({ url: '/assets/a.txt', headers: beyond })).statusCode,
      416,
    );
  });
});
