// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, utimes, writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { seededRandom } from 'spillway';
import { uniqueKey } from './fixtures/fleet-scene.ts';
import { FleetSite, type TaskBody, temporaryFolder } from './fixtures/fleet-site.ts';

interface Got {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

async function get(url: string, headers = {}, method = 'GET'): Promise<Got> {
  const asked = request(url, { headers, method, agent: false }).end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  const body = Buffer.concat(await answer.toArray());
  return { status: answer.statusCode ?? 0, headers: answer.headers, body };
}

function games(number: number): Buffer {
  return gzipSync(`[Event "task ${number}"]\n\n1. e4 e5 *\n\n`.repeat(50));
}

describe('the games of a task', () => {
  let site: FleetSite;
  let stack: AsyncDisposableStack;
  let folder: string;
  let run: string;
  const tasks: TaskBody[] = [];

  const upload = (task: TaskBody, zip: Buffer, more: object = {}) =>
    site.ask('upload_pgn', { ...task, message: '', pgn: zip.toString('base64'), ...more });
  const url = (path: string) => `${site.fleet.server.url}/api/${path}`;
  const pgnUrl = (task: number) => url(`pgn/${run}-${task}.pgn`);

  before(async () => {
    stack = new AsyncDisposableStack();
    folder = await temporaryFolder(stack);
    site = await FleetSite.open({ folder });
    run = await site.run();
    for (let at = 0; at < 12; at += 1) {
      tasks.push(await site.task({ unique_key: uniqueKey(at), concurrency: 1 }));
    }
  });

  after(async () => {
    await site[Symbol.asyncDispose]();
    await stack.disposeAsync();
  });

  it('come from tasks that are over, and are given as they were stored', async () => {
    const [task] = tasks as [TaskBody];
    assert.equal((await get(pgnUrl(0))).status, 404);
    await site.ask('failed_task', { ...task, message: 'over' });
    const { status, json } = await upload(task, games(0));
    assert.deepEqual([status, Object.keys(json)], [200, ['duration']]);
    const got = await get(pgnUrl(0));
    assert.equal(got.status, 200);
    assert.deepEqual(got.body, games(0));
    assert.equal(got.headers['content-encoding'], 'gzip');
    assert.equal(got.headers['content-type'], 'application/gzip');
    assert.equal(got.headers['content-disposition'], `attachment; filename="${run}-0.pgn"`);
    assert.equal(got.headers['content-length'], String(games(0).length));
    const part = await get(pgnUrl(0), { range: 'bytes=10-19' });
    assert.deepEqual([part.status, part.body], [206, games(0).subarray(10, 20)]);
    const etag = got.headers.etag as string;
    assert.equal((await get(pgnUrl(0), { 'if-none-match': etag })).status, 304);
    const head = await get(pgnUrl(0), {}, 'HEAD');
    assert.deepEqual(
      [head.headers['content-length'], head.body.length],
      [String(games(0).length), 0],
    );
  });

  it('are replaced when they come again, and no file is left behind', async () => {
    const task = tasks[1] as TaskBody;
    for (const number of [100, 101, 101, 1]) {
      assert.equal((await upload(task, games(number))).status, 200);
      assert.deepEqual((await get(pgnUrl(1))).body, games(number));
    }
    const files = await readdir(join(folder, 'pgns', run));
    assert.equal(files.filter((name) => name.startsWith('1-')).length, 1);
  });

  it('are one file for the whole run, by task, of which any part is given', async () => {
    const runUrl = url(`run_pgns/${run}.pgn.gz`);
    for (const at of [11, 5, 10, 2]) await upload(tasks[at] as TaskBody, games(at));
    const order = [0, 1, 2, 5, 10, 11].map(games);
    const whole = Buffer.concat(order);
    const got = await get(runUrl);
    assert.equal(got.status, 200);
    assert.deepEqual(got.body, whole);
    assert.deepEqual(gunzipSync(got.body), Buffer.concat(order.map((one) => gunzipSync(one))));
    assert.equal(got.headers['content-type'], 'application/gzip');
    assert.equal(got.headers['content-encoding'], undefined);
    assert.equal(got.headers['content-length'], String(whole.length));
    const random = seededRandom(3);
    const etag = got.headers.etag as string;
    for (let round = 0; round < 30; round += 1) {
      const start = Math.floor(random() * whole.length);
      const last = start + Math.floor(random() * (whole.length - start));
      const part = await get(runUrl, { range: `bytes=${start}-${last}`, 'if-range': etag });
      assert.deepEqual([part.status, part.body], [206, whole.subarray(start, last + 1)]);
    }
    await upload(tasks[5] as TaskBody, games(50));
    const stale = await get(runUrl, { range: 'bytes=0-9', 'if-range': etag });
    assert.equal(stale.status, 200, 'a part of another version would not fit');
  });

  it('are not found where there are none, and names must be names', async () => {
    const odd = ['x.pgn', `${run}.pgn`, `${run}-3.pgn`, `${run}-01.pgn`, `${run}-0.pgn.gz`];
    for (const name of [...odd, '..%2f..%2fx', `${run}-99999999999.pgn`]) {
      const { status, body, headers } = await get(url(`pgn/${name}`));
      assert.equal(status, 404, name);
      assert.equal(headers['content-encoding'], undefined);
      assert.match(JSON.parse(String(body)).error, /^\/api\/pgn\//);
    }
    assert.equal((await get(url(`run_pgns/${'0'.repeat(24)}.pgn.gz`))).status, 404);
    for (const name of ['x.pgn', '..%2fx.pgn.gz', `${run}-0.pgn.gz`, '.pgn.gz']) {
      assert.equal((await get(url(`run_pgns/${name}`))).status, 400, name);
    }
  });

  it('are refused if they are no whole gzip, and what was there stays', async () => {
    const task = tasks[2] as TaskBody;
    const zip = games(2);
    const broken = Buffer.from(zip);
    broken[40] = (broken[40] as number) ^ 1;
    const bad = {
      empty: Buffer.alloc(0),
      text: Buffer.from('1. e4 e5'),
      'header only': zip.subarray(0, 3),
      'cut off': zip.subarray(0, zip.length - 1),
      'a bit is wrong': broken,
      'followed by text': Buffer.concat([zip, Buffer.from('x')]),
      'followed by zeros': Buffer.concat([zip, Buffer.alloc(4)]),
    };
    for (const [name, bytes] of Object.entries(bad)) {
      const { status, json } = await upload(task, bytes);
      assert.equal(status, 400, name);
      assert.equal(json.error, '/api/upload_pgn: pgn is not gzip', name);
    }
    const { status, json } = await upload(task, zip, { pgn: 'H4sI*' });
    assert.deepEqual([status, json.error], [400, '/api/upload_pgn: pgn is not base64']);
    assert.deepEqual((await get(pgnUrl(2))).body, zip);
    const many = Buffer.concat([zip, zip]);
    assert.equal((await upload(task, many)).status, 200, 'many members are whole gzip too');
    const left = await readdir(join(folder, 'pgns'));
    assert.deepEqual(left, [run]);
  });

  it('are refused in the order of the checks that all requests of workers share', async () => {
    const task = tasks[3] as TaskBody;
    const zip = Buffer.from('no gzip');
    const { pgn: _pgn, ...without } = { ...task, pgn: '' };
    assert.equal((await upload(task, zip, { password: 'wrong' })).status, 401);
    const errors = [
      [await upload(task, zip, { more: 1 }), /more/],
      [await upload(task, zip, { pgn: 5 }), /pgn/],
      [await upload(task, zip, { run_id: '0'.repeat(24) }), /Invalid run_id/],
      [await upload(task, zip, { task_id: 999 }), /Invalid task_id/],
      [await upload(tasks[4] as TaskBody, zip, { task_id: task.task_id }), /Invalid unique_key/],
      [await site.ask('upload_pgn', without), /Missing pgn/],
      [await upload(task, zip, { task_id: undefined }), /Missing task_id/],
    ] as const;
    for (const [{ status, json }, text] of errors) {
      assert.equal(status, 400);
      assert.match(json.error, text);
      assert.equal(typeof json.duration, 'number');
    }
    assert.equal((await get(pgnUrl(3))).status, 404);
  });

  it('are refused before they are sent, from whoever has no right password', async () => {
    const task = tasks[3] as TaskBody;
    const begin = (fields: object) => {
      const asked = request(url('upload_pgn'), { method: 'POST', agent: false });
      asked.on('error', () => {});
      asked.write(`${JSON.stringify({ ...fields, message: '' }).slice(0, -1)},"pgn":"AAAA`);
      return asked;
    };
    for (const change of [{ password: 'wrong' }, { worker_info: { username: 'nobody' } }]) {
      const asked = begin({ ...task, ...change });
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      const { error, duration } = JSON.parse(Buffer.concat(await answer.toArray()).toString());
      assert.equal(answer.statusCode, 401);
      assert.equal(error, '/api/upload_pgn: Invalid username or password.');
      assert.equal(typeof duration, 'number');
      asked.destroy();
    }
  });

  it('may come before the password if they are few', async () => {
    const { password, ...rest } = tasks[6] as TaskBody;
    const pgn = (zip: Buffer) => ({ ...rest, pgn: zip.toString('base64'), message: '', password });
    assert.equal((await site.ask('upload_pgn', pgn(games(6)))).status, 200);
    assert.deepEqual((await get(pgnUrl(6))).body, games(6));
    const wrong = await site.ask('upload_pgn', { ...pgn(games(6)), password: 'wrong' });
    assert.equal(wrong.status, 401);
    const { status, json } = await site.ask('upload_pgn', pgn(randomBytes(9 * 2 ** 20)));
    assert.equal(status, 413);
    assert.match(json.error, /^\/api\/upload_pgn: more than 8388608 bytes .*: send it first$/);
    const many = randomBytes(9 * 2 ** 20);
    const usual = await upload(tasks[6] as TaskBody, gzipSync(many, { level: 0 }));
    assert.equal(usual.status, 200, 'workers send the games last');
  });

  it('are kept when the server begins again, and what it left half written is not', async () => {
    const [old, young] = ['.old.part', '.young.part'].map((name) => join(folder, 'pgns', name));
    await writeFile(old as string, 'x');
    await utimes(old as string, 0, 0);
    await writeFile(young as string, 'on its way to another instance');
    const { database } = site;
    const second = await FleetSite.open({ database, folder, leaseMs: 100 });
    await second[Symbol.asyncDispose]();
    assert.deepEqual(new Set(await readdir(join(folder, 'pgns'))), new Set(['.young.part', run]));
    assert.equal((await get(pgnUrl(0))).status, 200);
  });
});
