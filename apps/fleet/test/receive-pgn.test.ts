import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, stat } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import type { FastifyPluginAsync } from 'fastify';
import { Gate, Lane, systemClock, wallClock } from 'spillway';
import { cannotMount, mountSmallDisk } from 'spillway-fixtures/mount';
import { createServer, uploads } from 'spillway-http';
import { Database } from 'spillway-sql';
import { fleetError } from '../src/errors.ts';
import { sweepDrafts } from '../src/files/draft-file.ts';
import { Pgns, type ReceivePgnOptions, receivePgn } from '../src/files/pgns.ts';
import type { FleetSchema } from '../src/storage/fleet-schema.ts';
import { fleetMigrations } from '../src/storage/migrations.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

const task = { run_id: 'f'.repeat(24), task_id: 3 };

/** A server that takes games from anybody, within these limits. */
async function open(
  stack: AsyncDisposableStack,
  limits: Partial<ReceivePgnOptions> = {},
  folder?: string,
) {
  folder ??= await temporaryFolder(stack);
  const database = stack.use(
    await Database.open<FleetSchema>({ url: `sqlite:${join(folder, 'db')}` }),
  );
  await database.migrate(fleetMigrations);
  const pgns = join(folder, 'pgns');
  const games = new Pgns({ folder: pgns, database, clock: wallClock });
  await sweepDrafts(pgns, wallClock.now());
  const checks = new Gate({ limit: 2, queueMax: 9 });
  // A busy machine may take as long as it needs.
  const lane = new Lane({ name: 'all', limit: 8, queueMax: 8, deadlineMs: 600_000 });
  const server = stack.use(await createServer({ lane }));
  const routes: FastifyPluginAsync = async (scope) => {
    await scope.register(uploads);
    scope.post('/', async (http) => {
      const admit = async () => task;
      const authenticate = async () => true;
      const strangers = few(1);
      const most = { bodyBytesMax: 200_000_000, textBytesMax: 400_000_000, strangerBytesMax: 1 };
      const usual = { games, checks, strangers, ...most, authenticate, admit };
      await receivePgn(http, { ...usual, ...limits }, http.permit.signal);
      return {};
    });
  };
  await server.app.register(routes);
  await server.start();
  return { games, url: server.url, pgns };
}

/** Sends a body without saying how long it will be. */
async function send(url: string, body: AsyncIterable<string> | Iterable<string>) {
  const asked = request(url, { method: 'POST', agent: false });
  const answered = once(asked, 'response') as Promise<[IncomingMessage]>;
  const sent = pipeline(Readable.from(body), asked).catch(() => {});
  const [answer] = await answered;
  await answer.toArray();
  await sent;
  return answer.statusCode;
}

function few(fixed: number): Lane {
  return new Lane({ name: 'few', limit: { fixed }, queueMax: 0, deadlineMs: 600_000 });
}

/** Sends the beginning of a body, and no end. */
function begin(stack: AsyncDisposableStack, url: string, start: string) {
  const socket = request(url, { method: 'POST', agent: false });
  stack.defer(() => {
    socket.destroy();
  });
  const answer = once(socket, 'response').then(([said]: IncomingMessage[]) => {
    said?.resume();
    return said as IncomingMessage;
  });
  answer.catch(() => {});
  socket.on('error', () => {});
  socket.write(start);
  return { socket, answer };
}

function* bodyOf(zip: Buffer): Generator<string> {
  yield '{"pgn":"';
  for (let at = 0; at < zip.length; at += 49_152) {
    yield zip.subarray(at, at + 49_152).toString('base64');
  }
  yield '"}';
}

describe('receiving games', () => {
  it('stops at the limit of the body, and leaves nothing behind', async () => {
    await using stack = new AsyncDisposableStack();
    const { games, url, pgns } = await open(stack, { bodyBytesMax: 100_000 });
    const zip = gzipSync(randomBytes(60_000));
    assert.equal(await send(url, bodyOf(zip)), 200);
    assert.equal(await send(url, bodyOf(gzipSync(randomBytes(90_000)))), 413);
    assert.deepEqual(await readdir(pgns), [task.run_id]);
    assert.equal((await games.find(task.run_id, task.task_id))?.piece.size, zip.length);
  });

  it('refuses a small file that becomes a huge one', async () => {
    await using stack = new AsyncDisposableStack();
    const { games, url, pgns } = await open(stack, { textBytesMax: 50_000_000 });
    const bomb = gzipSync(Buffer.alloc(60_000_000));
    assert.ok(bomb.length < 100_000);
    assert.equal(await send(url, bodyOf(bomb)), 413);
    assert.equal(
      await send(url, bodyOf(Buffer.concat(Array(9).fill(gzipSync(Buffer.alloc(6e6)))))),
      413,
    );
    assert.equal(await games.find(task.run_id, task.task_id), undefined);
    assert.deepEqual(await readdir(pgns), []);
  });

  it('says that the disk is full, keeps what it has, and goes on with room', async (test) => {
    await using stack = new AsyncDisposableStack();
    const folder = join(await temporaryFolder(stack), 'disk');
    const disk = mountSmallDisk(folder, 4_000_000);
    if (disk === undefined) return test.skip(cannotMount);
    stack.use(disk);
    const { games, url, pgns } = await open(stack, {}, folder);
    const zip = gzipSync(randomBytes(60_000));
    assert.equal(await send(url, bodyOf(zip)), 200);
    assert.equal(await send(url, bodyOf(gzipSync(randomBytes(6_000_000)))), 507);
    assert.deepEqual(await readdir(pgns), [task.run_id]);
    assert.equal((await games.find(task.run_id, task.task_id))?.piece.size, zip.length);
    const next = gzipSync(randomBytes(50_000));
    assert.equal(await send(url, bodyOf(next)), 200);
    assert.equal((await games.find(task.run_id, task.task_id))?.piece.size, next.length);
  });

  it('leaves nothing behind when the client goes away', async () => {
    await using stack = new AsyncDisposableStack();
    const { url, pgns } = await open(stack);
    const asked = request(url, { method: 'POST', agent: false });
    asked.on('error', () => {});
    asked.write(`{"pgn":"${randomBytes(300_000).toString('base64')}`);
    while ((await readdir(pgns)).length === 0) await new Promise(setImmediate);
    asked.destroy();
    while ((await readdir(pgns)).length > 0) await new Promise(setImmediate);
  });

  it('asks who sends them, by the fields in front of them, before it stores any', async () => {
    await using stack = new AsyncDisposableStack();
    const asked: unknown[] = [];
    const authenticate = async (fields: unknown) => {
      asked.push(fields, await readFiles());
      throw fleetError('ACCESS_REFUSED', 'not you');
    };
    const { url, pgns } = await open(stack, { authenticate });
    const readFiles = async () => {
      const names = await readdir(pgns);
      return Promise.all(names.map(async (name) => (await stat(join(pgns, name))).size));
    };
    const { answer, socket } = begin(stack, url, '{"a":"\\"","b":[{}],"pgn" : "AAAA');
    assert.equal((await answer).statusCode, 401);
    assert.deepEqual(asked, [{ a: '"', b: [{}], pgn: '' }, [0]]);
    socket.destroy();
    const broken = begin(stack, url, '{"a":}{"pgn":"AAAA');
    assert.equal((await broken.answer).statusCode, 400);
    assert.equal(asked.length, 2);
  });

  it('takes few bytes from few senders before it knows who they are', async () => {
    await using stack = new AsyncDisposableStack();
    const strangers = few(2);
    let known = false;
    const authenticate = async () => known;
    const strangerBytesMax = 100_000;
    const limits = { strangers, strangerBytesMax, authenticate };
    const { url, pgns } = await open(stack, limits);
    assert.equal(await send(url, bodyOf(gzipSync(randomBytes(60_000)))), 200);
    assert.equal(await send(url, bodyOf(gzipSync(randomBytes(110_000)))), 413);
    const start = `{"pgn":"${randomBytes(60_000).toString('base64')}`;
    const begun = [begin(stack, url, start), begin(stack, url, start)];
    while (strangers.stats.inside < 2) await new Promise(setImmediate);
    const third = await begin(stack, url, start).answer;
    assert.deepEqual([third.statusCode, Number(third.headers['retry-after']) > 0], [503, true]);
    known = true;
    assert.equal(await send(url, bodyOf(gzipSync(randomBytes(110_000)))), 200);
    known = false;
    for (const { socket } of begun) socket.destroy();
    while (strangers.stats.inside > 0) await new Promise(setImmediate);
    assert.deepEqual(await readdir(pgns), [task.run_id]);
    assert.equal(await send(url, bodyOf(gzipSync(randomBytes(60_000)))), 200);
  });

  it('takes 100 MB with a few of them in memory', async () => {
    await using stack = new AsyncDisposableStack();
    const { games, url } = await open(stack);
    // What is garbage already says nothing of what is held. Buffers are given back by another
    // thread after a collection; the next collection waits for it.
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const held = (): number => {
      collect();
      collect();
      return process.memoryUsage().arrayBuffers;
    };
    const before = held();
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const fixture = join(import.meta.dirname, 'fixtures', 'large-upload.ts');
    const sending = promisify(execFile)(process.execPath, [fixture, url], { env });
    let isOver = false;
    const sent = sending.finally(() => {
      isOver = true;
    });
    let peak = 0;
    while (!isOver) {
      peak = Math.max(peak, held() - before);
      await new Promise<void>((resolve) => systemClock.after(250, resolve));
    }
    assert.equal((await sent).stdout, '200');
    const stored = await games.find(task.run_id, task.task_id);
    assert.ok((stored?.piece.size ?? 0) > 100_000_000);
    assert.ok(peak < 10_000_000, `${peak} bytes at once`);
  });
});
