// Slow: makes ten thousand requests.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Document, Lane } from 'spillway';
import { createServer } from 'spillway-http';
import { Pool } from 'undici';
import { until } from './fixtures/wire.ts';

interface Count {
  count: number;
}

/** Sends requests by some callers, each of which adds one in a durable transaction. */
async function stress(requests: number, callers: number, lane: Lane): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-http-'));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(folder, { recursive: true }));
  const path = join(folder, 'count.json');
  const document = stack.use(await Document.open<Count>({ path, initial: { count: 0 } }));
  const server = stack.use(await createServer({ lane }));
  server.app.post('/add', async ({ permit }) => {
    const add = (draft: Count) => ({ count: draft.count + 1 });
    return await document.transaction(add, { signal: permit.signal });
  });
  await server.start();
  const pool = new Pool(server.url, { connections: callers });
  stack.defer(() => pool.close());
  const outcomes = new Map<number, number>();
  const seen = new Set<number>();
  let left = requests;
  const caller = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const headers = { 'content-type': 'application/json' };
      const answer = await pool.request({ method: 'POST', path: '/add', body: '{}', headers });
      seen.add(((await answer.body.json()) as Count).count);
      outcomes.set(answer.statusCode, (outcomes.get(answer.statusCode) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  assert.deepEqual([...outcomes], [[200, requests]]);
  assert.equal(seen.size, requests, 'each answer is of its own transaction');
  assert.deepEqual(JSON.parse(await readFile(path, 'utf8')), { count: requests });
  await until(() => lane.stats.finished === requests);
}

describe('transactions over HTTP', () => {
  it('adds 1,000 with 32 at once and 128 callers, and loses none', async () => {
    const lane = new Lane({ name: 'add', limit: 32, queueMax: 4_096, deadlineMs: 60_000 });
    await stress(1_000, 128, lane);
    assert.ok(lane.stats.waitMs.max > 0, 'some had to wait');
  });

  it('adds 10,000 with 256 callers, and loses none', async () => {
    const lane = new Lane({ name: 'add', limit: 256, queueMax: 4_096, deadlineMs: 60_000 });
    await stress(10_000, 256, lane);
  });
});
