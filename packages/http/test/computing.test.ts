import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { it } from 'node:test';
import { Lane } from 'spillway';
import { createServer } from 'spillway-http';
import { get, until } from './fixtures/wire.ts';

it('notices a client that left while its answer was computed', async () => {
  const lane = new Lane({ name: 'sums', limit: { fixed: 1 }, queueMax: 0, deadlineMs: 60_000 });
  await using server = await createServer({ lane });
  server.app.get('/sum', async () => {
    socket.destroy();
    const endAt = performance.now() + 5;
    while (performance.now() < endAt);
    return { sum: 42 };
  });
  await server.start();
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.write(get('/sum'));
  await until(() => lane.stats.finished === 1, 'the end of the request');
  assert.deepEqual(lane.stats.outcomes, { ok: 0, failed: 0, late: 0, aborted: 1 });
});
