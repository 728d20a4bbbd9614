import assert from 'node:assert/strict';
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { Document, SpillwayError } from 'spillway';
import { VirtualClock } from 'spillway/testing';

const temporary = () => mkdtempDisposableSync(join(tmpdir(), 'spillway-document-'));
const counter = { n: 0, list: [] as number[] };

describe('Document under pressure', () => {
  it('refuses when too many wait, and lets waiters leave', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    const clock = new VirtualClock();
    await using document = await Document.open({ path, initial: 0, queueMax: 2, clock });
    await document.transaction(() => {});
    const other = new DatabaseSync(join(folder.path, '.locks', 'value.json.lock-owner'));
    other.exec('PRAGMA journal_mode = MEMORY; BEGIN IMMEDIATE');
    const quitter = new AbortController();
    const first = document.transaction((n) => n + 1, { signal: quitter.signal });
    const second = document.transaction((n) => n + 1);
    await assert.rejects(
      document.transaction(() => 9),
      { code: 'DOCUMENT_FULL', status: 503 },
    );
    quitter.abort();
    await assert.rejects(first, { name: 'AbortError' });
    const late = assert.rejects(second, { code: 'DEADLINE' });
    await clock.advance(10_000);
    await late;
    assert.equal(document.stats.waiting, 0);
    other.close();
    assert.equal(await document.transaction((n) => n + 1), 1);
    await document.close();
    assert.equal(clock.pending, 0);
  });

  it('leaves out a change that does not end in time, and goes on', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    const clock = new VirtualClock();
    await using document = await Document.open({ path, initial: 0, deadlineMs: 200, clock });
    const begun = Promise.withResolvers<void>();
    const stuck = document.transaction(() => {
      begun.resolve();
      return new Promise<number>(() => {});
    });
    await begun.promise;
    const late = assert.rejects(stuck, { code: 'DEADLINE' });
    await clock.advance(200);
    await late;
    assert.equal(await document.transaction((n) => n + 1), 1);
  });

  it('tells one who leaves whether its change may be written', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using document = await Document.open({ path, initial: counter });
    const begun = Promise.withResolvers<void>();
    const held = Promise.withResolvers<undefined>();
    const leave = new AbortController();
    const made = document.transaction(() => ({ n: 1, list: [] }), leave);
    const making = document.transaction(() => {
      begun.resolve();
      return held.promise;
    }, leave);
    await begun.promise;
    leave.abort(new SpillwayError('DEADLINE', 'late'));
    await assert.rejects(made, { code: 'DEADLINE', retryable: false });
    await assert.rejects(making, { code: 'DEADLINE', retryable: true });
    held.resolve(undefined);
    await document.transaction((draft) => draft);
    assert.equal((await document.read()).n, 1);
  });

  it('finishes what waits when it is closed, and takes nothing more', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    const document = await Document.open({ path, initial: 0 });
    const all = Array.from({ length: 20 }, () => document.transaction((n) => n + 1));
    await document.close();
    assert.deepEqual((await Promise.all(all)).at(-1), 20);
    const refusal = { code: 'DOCUMENT_CLOSED' };
    await assert.rejects(
      document.transaction(() => 1),
      refusal,
    );
    await assert.rejects(document.read(), refusal);
    await document.close();
  });
});
