import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { type Folder, LocalFolder } from '../src/files/folder.ts';
import { S3Folder, type S3FolderOptions } from '../src/files/s3-folder.ts';
import { temporaryFolder } from './fixtures/trades.ts';

const bytesOf = (text: string): Uint8Array => Buffer.from(text);
const textOf = async (folder: Folder, path: string): Promise<string> => {
  return Buffer.from(await folder.read(path)).toString();
};

let server: FauxqsServer;
const keys = { accessKeyId: 'test', secretAccessKey: 'secret' };
const bucket = (prefix: string): S3FolderOptions => {
  return { endpoint: `http://127.0.0.1:${server.port}/trades`, prefix, ...keys };
};

before(async () => {
  server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
  server.createBucket('trades');
});
after(async () => await server.stop());

const kinds: readonly (readonly [string, () => Promise<Folder>])[] = [
  ['a directory', temporaryFolder],
  ['a bucket', async () => await S3Folder.open(bucket('deep/prefix'))],
];

for (const [name, open] of kinds) {
  describe(`a folder that is ${name}`, () => {
    it('gives back what was written, and lists it by path', async () => {
      await using folder = await open();
      const path = 'raw/exchange=x/product=BTC%2FUSD/date=2024-01-01/1-2.jsonl.zst';
      await folder.write(path, bytesOf('one'));
      await folder.write(path, bytesOf('two'));
      await folder.write('raw/a', bytesOf('later'));
      assert.equal(await textOf(folder, path), 'two');
      const listed = await folder.list('raw');
      assert.deepEqual(listed, [
        { path: 'raw/a', bytes: 5 },
        { path, bytes: 3 },
      ]);
      assert.deepEqual(await folder.list('nothing'), []);
    });

    it('creates a file only once', async () => {
      await using folder = await open();
      assert.equal(await folder.create('table/1', bytesOf('first')), true);
      assert.equal(await folder.create('table/1', bytesOf('second')), false);
      assert.equal(await textOf(folder, 'table/1'), 'first');
    });

    it('adopts a file, also a large one, and holds it with its path', async () => {
      await using folder = await open();
      const big = Buffer.alloc(9 * 2 ** 20, 'large');
      await writeFile(join(folder.scratch, 'x'), big);
      await folder.adopt(join(folder.scratch, 'x'), 'date=1/x');
      assert.deepEqual(await readdir(folder.scratch), []);
      {
        await using held = await folder.hold('date=1/x');
        assert.match(held.path, /date=1\/x$/);
        assert.ok(big.equals(await readFile(held.path)));
      }
      const left = await readdir(folder.scratch);
      assert.deepEqual(left, []);
    });

    it('names the file that is missing, and deletes what is not there', async () => {
      await using folder = await open();
      const missing = { code: 'FOLDER_MISSING', message: new RegExp(`${folder.place}/no/file`) };
      await assert.rejects(folder.read('no/file'), missing);
      await assert.rejects(folder.hold('no/file'), missing);
      await folder.delete('no/file');
    });

    it('refuses paths that lead out of it', async () => {
      await using folder = await open();
      await assert.rejects(folder.read('../secret'), /path: must be relative/);
      await assert.rejects(folder.write('/x', bytesOf('')), /path: must be relative/);
    });

    it('does nothing for a caller that has left', async () => {
      await using folder = await open();
      await assert.rejects(folder.write('x', bytesOf('x'), AbortSignal.abort()), {
        name: 'AbortError',
      });
      assert.deepEqual(await folder.list('x'), []);
    });
  });
}

describe('LocalFolder', () => {
  it('says that it is read-only, and leaves the file as it was', async () => {
    await using folder = await temporaryFolder();
    await folder.write('kept/file', bytesOf('before'));
    await chmod(join(folder.place, 'kept'), 0o555);
    await chmod(folder.place, 0o755);
    await chmod(join(folder.place, '.scratch'), 0o777);
    await chmod(folder.scratch, 0o777);
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      const refused = { code: 'FOLDER_READ_ONLY', message: /kept\/file/ };
      await assert.rejects(folder.write('kept/file', bytesOf('after')), refused);
    } finally {
      if (isRoot) process.seteuid?.(0);
      await chmod(join(folder.place, 'kept'), 0o755);
    }
    assert.equal(await textOf(folder, 'kept/file'), 'before');
    assert.deepEqual(await readdir(folder.scratch), []);
  });

  it('holds files of another user, which get no second name, where they lie', async (test) => {
    if (process.geteuid?.() !== 0) return test.skip('only root can be another user');
    await using folder = await temporaryFolder();
    await folder.write('table/data/a.parquet', bytesOf('theirs'));
    await chmod(folder.place, 0o755);
    await chmod(join(folder.place, '.scratch'), 0o777);
    await chmod(folder.scratch, 0o777);
    process.seteuid?.(65_534);
    try {
      await using held = await folder.hold('table/data/a.parquet');
      assert.equal(await readFile(held.path, 'utf8'), 'theirs');
    } finally {
      process.seteuid?.(0);
    }
  });

  it('says that there is no room, and leaves the file as it was', async () => {
    await using folder = await temporaryFolder();
    await folder.write('file', bytesOf('before'));
    const module = JSON.stringify(import.meta.resolve('../src/files/folder.ts'));
    const script = `
      import { LocalFolder } from ${module};
      process.on('SIGXFSZ', () => {});
      const folder = await LocalFolder.open(process.argv[1]);
      await folder.write('file', Buffer.alloc(2 ** 20)).catch(({ code, message }) => {
        console.log(code, message);
      });`;
    const args = ['-c', 'ulimit -f 64; exec "$@"', 'sh', process.execPath];
    const node = ['--input-type=module', '-e', script, folder.place];
    const child = spawn('sh', [...args, ...node], { stdio: ['ignore', 'pipe', 'inherit'] });
    const said = Buffer.concat(await child.stdout.toArray()).toString();
    assert.match(said, new RegExp(`^FOLDER_FULL ${folder.place}/file: `));
    assert.equal(await textOf(folder, 'file'), 'before');
  });

  it('lists all other files where one or a folder is gone meanwhile', async () => {
    await using folder = await temporaryFolder();
    for (const name of ['a', 'b/c', 'd']) await folder.write(`raw/${name}`, bytesOf(name));
    // A link to nothing is what a file that was just deleted looks like after it was listed.
    await symlink(join(folder.place, 'gone'), join(folder.place, 'raw', 'aa'));
    const listed = (await folder.list('raw')).map(({ path }) => path);
    assert.deepEqual(listed, ['raw/a', 'raw/aa', 'raw/b/c', 'raw/d']);
    assert.deepEqual(await folder.list('nowhere'), []);
  });

  it('is refused where readers would take its path for columns of the table', async () => {
    await using folder = await temporaryFolder();
    await assert.rejects(LocalFolder.open(join(folder.place, 'date=2020-01-01', 'data')), {
      code: 'FOLDER_FAILED',
      message: /would take "date=2020-01-01" for a column of it; use a path without "="$/,
    });
  });

  it('clears away what a dead process left behind, and nothing else', async () => {
    await using folder = await temporaryFolder();
    // Linux gives no process a higher number than 2^22.
    const dead = folder.scratch.replace(`-${process.pid}-`, `-${2 ** 22 + 1}-`);
    await mkdir(dead);
    await using _second = await LocalFolder.open(folder.place);
    const names = await readdir(join(folder.place, '.scratch'));
    assert.equal(names.length, 2);
    assert.ok(!names.some((name) => dead.endsWith(name)));
  });
});

describe('S3Folder', () => {
  it('signs every request', async () => {
    const signed: (string | undefined)[] = [];
    const proxy = createServer((incoming, answer) => {
      signed.push(incoming.headers.authorization);
      const { method, headers, url: path } = incoming;
      const options = { host: '127.0.0.1', port: server.port, method, headers, path };
      const onward = request(options, (found) => {
        answer.writeHead(found.statusCode ?? 500, found.headers);
        found.pipe(answer);
      });
      incoming.pipe(onward);
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const { port } = proxy.address() as AddressInfo;
    const endpoint = `http://127.0.0.1:${port}/trades`;
    try {
      await using folder = await S3Folder.open({ ...bucket('signed'), endpoint });
      await folder.write('x', bytesOf('x'));
      await folder.create('y', bytesOf('y'));
      assert.equal(await textOf(folder, 'x'), 'x');
    } finally {
      proxy.close().closeAllConnections();
    }
    assert.ok(signed.length >= 4);
    const shape =
      /^AWS4-HMAC-SHA256 Credential=test\/\d{8}\/us-east-1\/s3\/.*Signature=[\da-f]{64}$/;
    for (const header of signed) assert.match(header ?? 'none', shape);
  });

  it('names the bucket that is not there, and leaves no directory behind', async () => {
    const parent = await temporaryFolder();
    const options = { ...bucket(''), scratchParent: parent.scratch };
    const endpoint = options.endpoint.replace('/trades', '/nowhere');
    await assert.rejects(S3Folder.open({ ...options, endpoint }), {
      code: 'FOLDER_MISSING',
      message: /nowhere/,
    });
    assert.deepEqual(await readdir(parent.scratch), []);
    await rm(parent.place, { recursive: true });
  });

  it('tries again when the server fails, and then says so', async () => {
    let asked = 0;
    const failing = createServer((_incoming, answer) => {
      asked += 1;
      answer.writeHead(503).end();
    }).listen(0, '127.0.0.1');
    await once(failing, 'listening');
    const { port } = failing.address() as AddressInfo;
    const endpoint = `http://127.0.0.1:${port}/trades`;
    const unreachable = { code: 'FOLDER_UNREACHABLE', retryable: true };
    await assert.rejects(S3Folder.open({ ...bucket(''), endpoint }), unreachable);
    failing.close().closeAllConnections();
    assert.equal(asked, 4);
  });
});
