import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  MemoryStore,
  type StoreChange,
  type StoreCommit,
  seededRandom,
  systemClock,
} from 'spillway';
import { serveStore } from './fixtures/store-server.ts';

const rest = (ms: number) => new Promise<void>((resolve) => systemClock.after(ms, resolve));

/** Remembers the fence of each write in the order they were accepted. */
class LoggingStore extends MemoryStore {
  readonly fences: number[] = [];
  refused = 0;

  override async commit(changes: readonly StoreChange[]): Promise<StoreCommit | undefined> {
    const commit = await super.commit(changes);
    for (const { name, value } of changes) {
      if (name !== 'log') continue;
      if (commit === undefined) this.refused += 1;
      else this.fences.push(value as number);
    }
    return commit;
  }
}

describe('Lease, between real processes', () => {
  it('never lets two write, though each is stopped for longer than a lease lives', async () => {
    const store = new LoggingStore();
    const server = serveStore(store).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const fighter = join(import.meta.dirname, 'fixtures', 'lease-fighter.ts');
    const children: ChildProcess[] = Array.from({ length: 8 }, () =>
      spawn(process.execPath, [fighter, String(port)], { stdio: 'ignore' }),
    );
    try {
      const random = seededRandom(1);
      for (let i = 0; i < 600 && store.fences.length === 0; i += 1) await rest(10);
      for (let round = 0; round < 12; round += 1) {
        const child = children[Math.floor(random() * children.length)] as ChildProcess;
        child.kill('SIGSTOP');
        await rest(100 + random() * 300);
        child.kill('SIGCONT');
      }
    } finally {
      for (const child of children) child.kill('SIGKILL');
      await Promise.all(children.map((child) => child.exitCode ?? once(child, 'exit')));
      server.close();
    }
    const sorted = store.fences.toSorted((a, b) => a - b);
    assert.deepEqual(store.fences, sorted);
    assert.ok(new Set(sorted).size >= 8, `${new Set(sorted).size} holders`);
    assert.ok(sorted.length >= 20, `${sorted.length} writes`);
  });
});
