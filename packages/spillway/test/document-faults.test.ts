import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Document, SpillwayError } from 'spillway';
import { cannotMount, mount, mountSmallDisk } from 'spillway-fixtures/mount';

const temporary = () => mkdtempDisposableSync(join(tmpdir(), 'spillway-faults-'));

/** The superuser may write anywhere, so it becomes somebody else for a while. */
function asOrdinaryUser(): Disposable {
  const isSuperuser = process.geteuid?.() === 0;
  if (isSuperuser) process.seteuid?.(65_534);
  return { [Symbol.dispose]: () => void (isSuperuser && process.seteuid?.(0)) };
}

describe('Document in trouble', () => {
  it('says when the disk is full, keeps its value, and goes on with room', async (test) => {
    using folder = temporary();
    const disk = join(folder.path, 'disk');
    using mounted = mountSmallDisk(disk, 1_000_000);
    if (mounted === undefined) return test.skip(cannotMount);
    const path = join(disk, 'value.json');
    await using document = await Document.open({ path, initial: '' });
    const small = 'a'.repeat(100_000);
    const large = 'b'.repeat(200_000);
    await document.transaction(() => small);
    const ballast = join(disk, 'ballast');
    assert.throws(() => writeFileSync(ballast, Buffer.alloc(2_000_000)), { code: 'ENOSPC' });
    for (let round = 0; round < 3; round += 1) {
      const group = [document.transaction(() => large), document.transaction((text) => `${text}c`)];
      for (const outcome of await Promise.allSettled(group)) {
        assert.equal(outcome.status, 'rejected');
        assert.equal(outcome.reason.code, 'DOCUMENT_FAILED');
        assert.equal(outcome.reason.cause.code, 'ENOSPC');
      }
      assert.equal(await document.read(), small);
      assert.equal(readFileSync(path, 'utf8'), JSON.stringify(small));
    }
    assert.equal(document.ready, false);
    assert.equal(document.stats.full, true);
    assert.match(String(document.fault), /the disk of .*value\.json is full: ENOSPC/);
    rmSync(ballast);
    await document.transaction(() => large);
    assert.deepEqual([document.ready, document.fault], [true, undefined]);
    assert.equal(readFileSync(path, 'utf8'), JSON.stringify(large));
    assert.ok(!readdirSync(disk).includes('value.json.tmp'));
  });

  it('says when the file cannot be replaced, and keeps its value', async (test) => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open({ path, initial: 0 });
    await document.transaction(() => 1);
    {
      // Nothing can be renamed to where something is mounted, though it can be read.
      using mounted = mount(path, '--bind', path);
      if (mounted === undefined) return test.skip(cannotMount);
      const busy = { code: 'DOCUMENT_FAILED', message: /EBUSY.*rename/ };
      await assert.rejects(
        document.transaction(() => 2),
        busy,
      );
      assert.equal(await document.read(), 1);
      assert.equal(readFileSync(path, 'utf8'), '1');
      assert.ok(!readdirSync(folder.path).includes('value.json.tmp'));
    }
    assert.equal(await document.transaction((n) => n + 1), 2);
  });

  it('says when its folder is read-only, and keeps its value', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open({ path, initial: 0 });
    await document.transaction(() => 1);
    chmodSync(folder.path, 0o555);
    {
      using _user = asOrdinaryUser();
      const refused = { code: 'DOCUMENT_FAILED', message: /EACCES/ };
      await assert.rejects(
        document.transaction(() => 2),
        refused,
      );
    }
    assert.equal(await document.read(), 1);
    assert.equal(readFileSync(path, 'utf8'), '1');
    chmodSync(folder.path, 0o700);
    assert.equal(await document.transaction((n) => n + 1), 2);
  });

  it('tells whether a change may have been done when its deadline comes', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open<string[]>({ path, initial: [] });
    const quitter = new AbortController();
    const begun = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const add = (name: string, signal?: AbortSignal) =>
      document.transaction((names) => [...names, name], { signal });
    const first = add('with the next', quitter.signal);
    const second = document.transaction(async (names) => {
      begun.resolve();
      await ended.promise;
      return [...names, 'next'];
    });
    await begun.promise;
    const third = add('never begun', quitter.signal);
    const late = { code: 'DEADLINE', status: 504 };
    const refused = [
      assert.rejects(first, { ...late, retryable: false, message: /is not known$/ }),
      assert.rejects(third, { ...late, retryable: true }),
    ];
    quitter.abort(new SpillwayError('DEADLINE', 'too late'));
    await Promise.all(refused);
    ended.resolve();
    assert.deepEqual(await second, ['with the next', 'next']);
  });
});
