import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  chmodSync,
  existsSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Document } from 'spillway';

const temporary = () => mkdtempDisposableSync(join(tmpdir(), 'spillway-document-'));
const onLinux = process.platform === 'linux';
const counter = { n: 0, list: [] as number[] };

describe('Document', () => {
  it('keeps what was acknowledged for whoever opens it next', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    {
      await using document = await Document.open({ path, initial: counter });
      assert.deepEqual(await document.read(), counter);
      assert.deepEqual(readdirSync(folder.path), []);
      await document.transaction((draft) => {
        draft.n = 7;
      });
      assert.deepEqual(await document.transaction((draft) => ({ ...draft, list: [1] })), {
        n: 7,
        list: [1],
      });
    }
    assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')), { n: 7, list: [1] });
    assert.deepEqual(readdirSync(folder.path).sort(), ['.locks', 'value.json']);
    await using again = await Document.open({ path, initial: counter });
    assert.equal((await again.read()).n, 7);
  });

  it('does 1,000 concurrent increments, all of them, in few writes', async () => {
    using folder = temporary();
    await using document = await Document.open({
      path: join(folder.path, 'value.json'),
      initial: counter,
    });
    const results = await Promise.all(
      Array.from({ length: 1_000 }, () =>
        document.transaction((draft) => {
          draft.n += 1;
        }),
      ),
    );
    assert.equal((await document.read()).n, 1_000);
    assert.equal(new Set(results.map(({ n }) => n)).size, 1_000);
    const { waiting, transactions, writes } = document.stats;
    assert.deepEqual({ waiting, transactions }, { waiting: 0, transactions: 1_000 });
    assert.ok(writes <= 10, `${writes} writes`);
  });

  it('gives copies only: what is done to them changes nothing', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open({ path, initial: counter });
    const read = await document.read();
    read.list.push(1);
    let kept = counter;
    const first = document.transaction((draft) => {
      kept = draft;
      draft.n = 1;
    });
    const second = document.transaction(async (draft) => {
      kept.n = 99;
      kept.list.push(99);
      await undefined;
      draft.list.push(2);
    });
    await Promise.all([first, second]);
    kept.n = 98;
    assert.deepEqual(await document.read(), { n: 1, list: [2] });
    assert.deepEqual(counter, { n: 0, list: [] });
  });

  it('leaves out the one that throws or cannot be written, and keeps its neighbours', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    const initial: Record<string, unknown> = {};
    await using document = await Document.open({ path, initial, bytesMax: 100 });
    const set = (name: string, value: unknown) =>
      document.transaction((draft) => {
        draft[name] = value;
        if (name === 'bad') throw new Error('no');
      });
    const outcomes = await Promise.allSettled([
      set('a', 1),
      set('bad', 1),
      set('big', 'x'.repeat(200)),
      set('odd', 1n),
      document.transaction(async () => {
        throw new Error('later');
      }),
      set('b', 2),
    ]);
    const whys = outcomes.map((one) => (one.status === 'rejected' ? one.reason : undefined));
    assert.deepEqual(
      whys.map((why) => why?.code ?? why?.message),
      [undefined, 'no', 'DOCUMENT_TOO_LARGE', 'ERR_ASSERTION', 'later', undefined],
    );
    assert.match(whys[3].message, /value: must be JSON/);
    assert.deepEqual(await document.read(), { a: 1, b: 2 });
    assert.equal(document.stats.writes, 1);
  });

  it('refuses values that JSON would change without a word', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open<unknown>({ path, initial: null });
    for (const value of [Number.NaN, new Map(), [undefined], new Date(0), { a: [Infinity] }]) {
      await assert.rejects(
        document.transaction(() => value),
        /value: must be JSON/,
      );
    }
    await assert.rejects(Document.open({ path, initial: new Set() }), /an instance of Set/);
    assert.deepEqual(await document.transaction(() => ({ a: 1, b: undefined })), {
      a: 1,
      b: undefined,
    });
    assert.deepEqual(await document.read(), { a: 1 });
  });

  it('refuses at once a transaction within a change, which would wait for itself', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open({ path, initial: 0 });
    await using same = await Document.open({ path, initial: 0 });
    await using other = await Document.open({ path: `${path}.other`, initial: 0 });
    for (const inner of [document, same]) {
      const nested = document.transaction(() => inner.transaction((n) => n + 1));
      await assert.rejects(nested, /it would wait for itself/);
    }
    // What a change has set in motion may use the document once the change has ended.
    const ended = Promise.withResolvers<void>();
    let later: Promise<number> | undefined;
    await document.transaction(async (n) => {
      later = ended.promise.then(() => document.transaction((m) => m + 10));
      return n + (await other.transaction((m) => m + 1));
    });
    ended.resolve();
    assert.equal(await later, 11);
  });

  it('runs each change in the AsyncLocalStorage context of its caller', async () => {
    using folder = temporary();
    const initial: (string | undefined)[] = [];
    await using document = await Document.open({ path: join(folder.path, 'value.json'), initial });
    const request = new AsyncLocalStorage<string>();
    const note = () => document.transaction((list) => [...list, request.getStore() ?? 'none']);
    await Promise.all([request.run('a', note), request.run('b', note), note()]);
    assert.deepEqual(await document.read(), ['a', 'b', 'none']);
  });

  it('writes nothing once its lock is lost', async (test) => {
    if (process.platform !== 'linux') return test.skip('only Linux shows it');
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open({ path, initial: 0 });
    await document.transaction(() => 1);
    const lost = document.transaction(async (n) => {
      // A backup, for example: it reads every file of the folder.
      readFileSync(join(folder.path, '.locks', 'value.json.lock-owner'));
      return n + 1;
    });
    await assert.rejects(lost, { code: 'LOCK_LOST', retryable: true });
    assert.equal(readFileSync(path, 'utf8'), '1');
    assert.equal(await document.transaction((n) => n + 1), 2);
  });

  it('sees at once what another opening of the same file has written', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using one = await Document.open({ path, initial: 0 });
    await using other = await Document.open({ path, initial: 0 });
    for (let n = 1; n <= 30; n += 1) {
      const writer = n % 3 === 0 ? one : other;
      assert.equal(await writer.transaction((value) => value + 1), n);
      assert.deepEqual(await Promise.all([one.read(), other.read()]), [n, n]);
    }
  });

  it('sees a new file of the same size and time, which could have the same inode', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using one = await Document.open({ path, initial: 0 });
    await using other = await Document.open({ path, initial: 0 });
    for (let n = 2; n < 10; n += 2) {
      await other.transaction(() => n - 1);
      await other.transaction(() => n);
      utimesSync(path, 1, 1);
      assert.equal(await one.read(), n);
    }
  });

  it('refuses a corrupt file and leaves it as it is, until somebody has mended it', async () => {
    for (const wrong of ['', '{"n":', '{"n":1}\0\0', '\xff\xfe', '{"n":"\xff"}']) {
      using folder = temporary();
      const path = join(folder.path, 'value.json');
      writeFileSync(path, wrong, 'latin1');
      const refusal = { code: 'DOCUMENT_CORRUPT', message: /value\.json is not JSON: / };
      await assert.rejects(Document.open({ path, initial: counter }), refusal);
      await assert.rejects(Document.open({ path, initial: counter }), refusal);
      assert.equal(readFileSync(path, 'latin1'), wrong);
      writeFileSync(path, '{"n":5,"list":[]}');
      await using document = await Document.open({ path, initial: counter });
      writeFileSync(path, wrong, 'latin1');
      await assert.rejects(document.read(), refusal);
      await assert.rejects(
        document.transaction(() => counter),
        refusal,
      );
      assert.equal(readFileSync(path, 'latin1'), wrong);
    }
  });

  it('leaves no file open, also when it refuses one', { skip: !onLinux }, async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    const isOurs = (fd: string) => {
      const place = join('/proc/self/fd', fd);
      return existsSync(place) && readlinkSync(place).startsWith(folder.path);
    };
    const open = () => readdirSync('/proc/self/fd').filter(isOurs);
    const document = await Document.open({ path, initial: counter, bytesMax: 100 });
    await document.transaction(() => ({ n: 1, list: [] }));
    assert.notDeepEqual(open(), []);
    assert.equal(document.ready, true);
    await document.close();
    assert.equal(document.ready, false);
    assert.deepEqual(open(), []);
    writeFileSync(path, JSON.stringify('x'.repeat(100)));
    const refused = Document.open({ path, initial: counter, bytesMax: 100 });
    await assert.rejects(refused, { code: 'DOCUMENT_TOO_LARGE' });
    assert.deepEqual(open(), []);
  });

  it('sets a corrupt file aside with its reason when it is told to', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    for (const n of [1, 3]) {
      writeFileSync(path, `{"n":${n}`);
      const options = { path, initial: counter, onCorrupt: 'initial' } as const;
      await using document = await Document.open(options);
      assert.deepEqual(await document.read(), counter);
      assert.equal(readFileSync(`${path}.corrupt-${n}`, 'utf8'), `{"n":${n}`);
      assert.match(readFileSync(`${path}.corrupt-${n}.reason`, 'utf8'), /value\.json is not JSON/);
      writeFileSync(path, '3 4');
      await document.transaction((draft) => {
        draft.n += 1;
      });
      assert.equal((await document.read()).n, 1);
    }
  });

  it('writes through a link, and keeps the mode of the file', async () => {
    using folder = temporary();
    const path = join(folder.path, 'link.json');
    const target = join(folder.path, 'target.json');
    symlinkSync('target.json', path);
    await assert.rejects(Document.open({ path, initial: 0 }), { code: 'DOCUMENT_FAILED' });
    writeFileSync(target, '1');
    chmodSync(target, 0o664);
    await using document = await Document.open({ path, initial: 0 });
    await document.transaction((n) => n + 1);
    assert.equal(readFileSync(target, 'utf8'), '2');
    assert.equal(statSync(target).mode & 0o777, 0o664);
    const fresh = join(folder.path, 'fresh.json');
    await using other = await Document.open({ path: fresh, initial: 0 });
    await other.transaction(() => 1);
    assert.equal(statSync(fresh).mode & 0o777, 0o600);
  });

  it('takes the place of a temporary file that a killed process left', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    writeFileSync(`${path}.tmp`, 'half a val');
    await using document = await Document.open({ path, initial: 0 });
    await document.transaction(() => 1);
    assert.equal(readFileSync(path, 'utf8'), '1');
    assert.ok(!readdirSync(folder.path).includes('value.json.tmp'));
  });

  it('says what is wrong, and changes nothing, when it cannot read or write', async () => {
    using folder = temporary();
    const missing = join(folder.path, 'nowhere', 'value.json');
    const failed = (message: RegExp) => ({ code: 'DOCUMENT_FAILED', message });
    await assert.rejects(Document.open({ path: missing, initial: 0 }), failed(/ENOENT/));
    await assert.rejects(Document.open({ path: folder.path, initial: 0 }), failed(/EISDIR/));
    const path = join(folder.path, 'value.json');
    writeFileSync(path, '1');
    chmodSync(path, 0o444);
    await using document = await Document.open({ path, initial: 0 });
    await assert.rejects(
      document.transaction(() => 2),
      failed(/value\.json: it is read-only/),
    );
    assert.equal(await document.read(), 1);
    chmodSync(path, 0o600);
    assert.equal(await document.transaction(() => 2), 2);
    writeFileSync(path, `"${'x'.repeat(300_000)}"`);
    await assert.rejects(document.read(), { code: 'DOCUMENT_TOO_LARGE' });
  });

  it('checks its options', async () => {
    const path = join(tmpdir(), 'never-made.json');
    const open = (options: object) => Document.open({ path, initial: 0, ...options });
    await assert.rejects(open({ path: '' }), /path: must be a string that is not empty/);
    await assert.rejects(open({ initial: undefined }), /initial: must be given/);
    await assert.rejects(open({ bytesMax: 0 }), /bytesMax: must be an integer from 1/);
    await assert.rejects(open({ queueMax: -1 }), /queueMax: must be an integer from 0/);
    await assert.rejects(open({ deadlineMs: -1 }), /deadlineMs: must be a number from 0/);
    await assert.rejects(open({ onCorrupt: 'ignore' }), /onCorrupt: must be 'refuse' or 'initial'/);
  });
});
