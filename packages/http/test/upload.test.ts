import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  chmod,
  chown,
  mkdir,
  mkdtempDisposable,
  readdir,
  readFile,
  writeFile,
} from 'node:fs/promises';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type FastifyInstance, fastify } from 'fastify';
import { deadline } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { cannotMount, mountSmallDisk } from 'spillway-fixtures/mount';
import { failures, receive, uploads } from 'spillway-http';

/** A server that takes uploads into a folder of its own. */
class Scene implements AsyncDisposable {
  readonly app: FastifyInstance = fastify();
  readonly folder: string;
  /** The error of the last call of `receive`. */
  failure: Promise<unknown> | undefined;
  readonly clock: VirtualClock = new VirtualClock();
  readonly #resources: AsyncDisposableStack;

  private constructor(folder: string, resources: AsyncDisposableStack) {
    this.folder = folder;
    this.#resources = resources;
  }

  static async open(): Promise<Scene> {
    const resources = new AsyncDisposableStack();
    const { path } = resources.use(await mkdtempDisposable(join(tmpdir(), 'spillway-upload-')));
    const scene = new Scene(path, resources);
    await scene.app.register(uploads);
    scene.app.put('/raw', async (request) => {
      using limit = deadline(scene.clock, 1_000);
      const options = { bytesMax: 100_000, signal: limit.signal };
      const receiving = receive(request, join(path, 'file'), options);
      scene.failure = receiving.catch((error: unknown) => error);
      return await receiving;
    });
    return scene;
  }

  async put(head: string, body: Buffer | string): Promise<Socket> {
    await this.app.listen({ port: 0, host: '127.0.0.1' });
    const socket = connect((this.app.server.address() as AddressInfo).port, '127.0.0.1');
    socket.write(`PUT /raw HTTP/1.1\r\nHost: localhost\r\n${head}\r\n\r\n`);
    socket.write(body);
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.app.close();
    await this.#resources.disposeAsync();
  }
}

async function text(socket: Socket): Promise<string> {
  return Buffer.concat(await socket.toArray()).toString();
}

function chunked(bytes: number): string {
  return `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;
}

describe('an upload', () => {
  it('takes no body for an empty file, and a form as it is where a file is wanted', async () => {
    await using scene = await Scene.open();
    const url = `${await scene.app.listen({ port: 0, host: '127.0.0.1' })}/raw`;
    const headers = { 'content-type': 'multipart/form-data; boundary=x' };
    for (const [text, init] of [
      ['', {}],
      ['--x', { headers, body: '--x' }],
    ] as const) {
      const answer = await fetch(url, { method: 'PUT', ...init });
      assert.equal(answer.status, 200);
      assert.equal(await readFile(join(scene.folder, 'file'), 'utf8'), text);
    }
  });

  it('replaces the whole file, and gives its size and hash', async () => {
    await using scene = await Scene.open();
    await writeFile(join(scene.folder, 'file'), 'old');
    const bytes = Buffer.alloc(100_000, 'new');
    for (const type of ['application/octet-stream', 'application/json', 'text/plain', undefined]) {
      const headers = type === undefined ? {} : { 'content-type': type };
      const answer = await scene.app.inject({
        method: 'PUT',
        url: '/raw',
        headers,
        payload: bytes,
      });
      assert.equal(answer.statusCode, 200, answer.body);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      assert.equal(answer.json().sha256, sha256);
      assert.equal(answer.json().bytes, 100_000);
      assert.deepEqual(await readFile(join(scene.folder, 'file')), bytes);
      assert.deepEqual(await readdir(scene.folder), ['file']);
    }
  });

  it('stays in place when its folder cannot be written to the disk', async () => {
    await using scene = await Scene.open();
    await writeFile(join(scene.folder, 'file'), 'old');
    // A folder that may be written to, but not be opened.
    const nobody = 65_534;
    const isRoot = process.getuid?.() === 0;
    if (isRoot) await chown(scene.folder, nobody, nobody);
    await chmod(scene.folder, 0o300);
    if (isRoot) process.seteuid?.(nobody);
    const answer = await scene.app.inject({ method: 'PUT', url: '/raw', payload: 'new' });
    if (isRoot) process.seteuid?.(0);
    await chmod(scene.folder, 0o700);
    assert.equal(answer.statusCode, 500);
    assert.equal(await readFile(join(scene.folder, 'file'), 'utf8'), 'new');
    assert.deepEqual(await readdir(scene.folder), ['file']);
  });

  it('of a declared length above the limit is refused before a byte is read', async () => {
    await using scene = await Scene.open();
    const answer = await text(await scene.put('Content-Length: 100001', ''));
    assert.match(answer, /^HTTP\/1.1 413/);
    assert.match(answer, /BODY_TOO_LARGE/);
    assert.deepEqual(await readdir(scene.folder), []);
  });

  it('that turns out too long is refused in the middle, and the connection closed', async () => {
    await using scene = await Scene.open();
    const socket = await scene.put('Transfer-Encoding: chunked', chunked(60_000));
    socket.write(chunked(60_000));
    const answer = await text(socket);
    assert.match(answer, /^HTTP\/1.1 413/);
    assert.match(answer, /connection: close/);
    assert.deepEqual(await readdir(scene.folder), []);
  });

  it('of a client that goes away leaves what was there', async () => {
    await using scene = await Scene.open();
    await writeFile(join(scene.folder, 'file'), 'old');
    const socket = await scene.put('Content-Length: 90000', 'x'.repeat(50_000));
    while ((await readdir(scene.folder)).length < 2);
    socket.destroy();
    const failure = await scene.failure;
    assert.ok(failure instanceof Error);
    assert.deepEqual(await readdir(scene.folder), ['file']);
    assert.equal(await readFile(join(scene.folder, 'file'), 'utf8'), 'old');
  });

  it('that takes longer than it may is answered 504 and removed', async () => {
    await using scene = await Scene.open();
    const socket = await scene.put('Content-Length: 90000', 'x'.repeat(50_000));
    while ((await readdir(scene.folder)).length < 1);
    await scene.clock.advance(1_000);
    const answer = await text(socket);
    assert.match(answer, /^HTTP\/1.1 504/);
    assert.match(answer, /connection: close/);
    assert.deepEqual(await readdir(scene.folder), []);
  });

  it('leaves nothing behind when its name cannot be given', async () => {
    await using scene = await Scene.open();
    await mkdir(join(scene.folder, 'file'));
    const answer = await scene.app.inject({ method: 'PUT', url: '/raw', payload: 'x' });
    assert.equal(answer.statusCode, 500);
    assert.deepEqual(await readdir(scene.folder), ['file']);
  });

  it('must be in a scope that leaves bodies unread', async () => {
    const app = fastify();
    app.put('/', (request) => receive(request, '/nowhere', { bytesMax: 1 }));
    const answer = await app.inject({ method: 'PUT', url: '/', payload: { a: 1 } });
    assert.match(answer.json().message, /register `uploads` in its scope/);
  });
});

describe('an upload for which the disk has no room', () => {
  it('is answered 507, and nothing of it is kept', async (test) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-upload-'));
    const disk = join(folder.path, 'disk');
    using mounted = mountSmallDisk(disk, 65_536);
    if (mounted === undefined) return test.skip(cannotMount);
    const app = fastify();
    await app.register(uploads);
    app.put('/', (request) => receive(request, join(disk, 'raw'), { bytesMax: 100_000 }));
    const answer = await app.inject({ method: 'PUT', url: '/', payload: 'z'.repeat(90_000) });
    assert.deepEqual([answer.statusCode, answer.json().code], [507, 'DISK_FULL']);
    assert.deepEqual(await readdir(disk), []);
  });
});

describe('a form that is read part by part', () => {
  const part = 'content-disposition: form-data; name="f"; filename="a"\r\n\r\n';
  const whole = `--b\r\n${part}whole\r\n--b--\r\n`;
  const form = 'multipart/form-data; boundary=b';
  const cases: readonly [what: string, type: string, body: string, status: number, code: string][] =
    [
      ['without a boundary', 'multipart/form-data', whole, 400, 'BODY_INVALID'],
      ['with an endless boundary', `${form.repeat(20)}`, whole, 400, 'BODY_INVALID'],
      ['that ends in a part', form, `--b\r\n${part}cut off`, 400, 'BODY_INVALID'],
      ['that ends in a head', form, '--b\r\ncontent-dispo', 400, 'BODY_INVALID'],
      ['with a file too many', form, `--b\r\n${part}1\r\n${whole}`, 413, 'BODY_TOO_LARGE'],
      ['with too long a file', form, whole.replace('whole', 'x'.repeat(99)), 413, 'BODY_TOO_LARGE'],
      ['that is none', 'application/json', '{}', 415, 'BODY_TYPE'],
    ];
  for (const [what, type, body, status, code] of cases) {
    it(`${what} is refused with ${status}`, async () => {
      const app = fastify();
      await app.register(failures);
      await app.register(uploads);
      app.post('/', async (request) => {
        const limits = { files: 1, fileSize: 50 };
        for await (const each of request.parts({ limits })) {
          if (each.type === 'file') await each.toBuffer();
        }
      });
      const headers = { 'content-type': type };
      const answer = await app.inject({ method: 'POST', url: '/', headers, payload: body });
      assert.deepEqual([answer.statusCode, answer.json().error.code], [status, code]);
    });
  }
});
