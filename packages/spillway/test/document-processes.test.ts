import assert from 'node:assert/strict';
import { mkdtempDisposableSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Document } from 'spillway';
import { Child } from './fixtures/child.ts';

const temporary = () => mkdtempDisposableSync(join(tmpdir(), 'spillway-processes-'));

describe('Document in many processes', () => {
  it('loses none of 8 x 250 transactions, and a reader never sees half a value', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using reader = new Child('read', path);
    await reader.heard(1);
    await using stack = new AsyncDisposableStack();
    const children = Array.from({ length: 8 }, () => stack.use(new Child('add', path, 250)));
    await Promise.all(children.map((child) => child.ended()));
    const { left, right } = JSON.parse(readFileSync(path, 'utf8'));
    assert.deepEqual({ left, right }, { left: 2_000, right: 2_000 });
    while (reader.lines.at(-1) !== '2000') await reader.heard(reader.lines.length + 1);
    assert.deepEqual(
      reader.lines.filter((line) => line.startsWith('broken')),
      [],
    );
    assert.ok(reader.lines.length > 2, 'it read while others wrote');
  });

  it('waits for a stopped holder until its deadline, and is right when that goes on', async () => {
    using folder = temporary();
    const path = join(folder.path, 'value.json');
    await using holder = new Child('hold', `${path}.lock`);
    await holder.heard(1);
    holder.process.kill('SIGSTOP');
    await using hasty = await Document.open({ path, initial: 0, deadlineMs: 100 });
    await using patient = await Document.open({ path, initial: 0, deadlineMs: 60_000 });
    const waiting = patient.transaction((n) => n + 1);
    await assert.rejects(
      hasty.transaction((n) => n + 10),
      { code: 'DEADLINE' },
    );
    assert.equal(await hasty.read(), 0);
    holder.process.kill('SIGCONT');
    holder.process.stdin.end('go');
    assert.equal(await waiting, 1);
    assert.equal(await hasty.read(), 1);
    await holder.ended();
    assert.deepEqual(holder.lines, ['held', 'released']);
  });
});
