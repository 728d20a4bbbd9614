import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, it } from 'node:test';

function start(name: string): ChildProcess & Disposable {
  const child = fork(join(import.meta.dirname, 'fixtures', name));
  return Object.assign(child, { [Symbol.dispose]: () => void child.kill() });
}

async function told<T>(child: ChildProcess): Promise<T> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`ended with ${code}`);
  });
  const [message] = await Promise.race([once(child, 'message'), ended]);
  return message as T;
}

describe('a server with 10,000 connections', () => {
  it('answers every beat on each of them while another lane is full', {
    timeout: 300_000,
  }, async () => {
    using server = start('beat-server.ts');
    const { port } = await told<{ port: number }>(server);
    const leaving = new AbortController();
    const work = () =>
      fetch(`http://127.0.0.1:${port}/work`, { method: 'POST', signal: leaving.signal });
    const busy = Array.from({ length: 9 }, () => work().catch(() => {}));
    const [first, second] = [start('beat-clients.ts'), start('beat-clients.ts')];
    using _first = first;
    using _second = second;
    first.send({ port, from: '127.0.0.2', count: 5_000, rounds: 3 });
    second.send({ port, from: '127.0.0.3', count: 5_000, rounds: 3 });
    const reports = await Promise.all([first, second].map((each) => told(each)));
    assert.deepEqual(reports, [
      { answered: 15_000, open: 5_000 },
      { answered: 15_000, open: 5_000 },
    ]);
    const refusal = await work();
    assert.equal(refusal.status, 503);
    assert.match(refusal.headers.get('retry-after') ?? '', /^\d+$/);
    server.send({});
    const { refused, started, connections, workInside } =
      await told<Record<string, unknown>>(server);
    assert.deepEqual(refused, {
      aborted: 0,
      cleared: 0,
      closed: 0,
      deadline: 0,
      full: 0,
      late: 0,
      stale: 0,
    });
    assert.equal(started, 30_000);
    assert.equal(workInside, 5);
    assert.ok(Number(connections) >= 10_009, `${connections} connections`);
    leaving.abort();
    await Promise.all(busy);
  });
});
