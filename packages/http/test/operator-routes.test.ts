import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';
import { createServer } from 'spillway-http';
import { ask } from './ask.ts';

describe('the operator endpoints of a server', () => {
  it('show the lanes of all routes, and which routes break the word of their domain', async () => {
    await using server = await createServer({ loopMsMax: 20 });
    const lane = new Lane({ name: 'searches', limit: 2, queueMax: 0, deadlineMs: 1_000 });
    server.app.get('/slow', { config: { lane } }, async () => {
      const until = performance.now() + 50;
      while (performance.now() < until);
      return 'held the loop';
    });
    server.app.get('/plain', async () => 'by the server');
    await server.start();
    await ask(`${server.url}/slow`);
    const read = async (path: string) => JSON.parse((await ask(`${server.url}/-/${path}`)).text);
    const routes: { path: string; lane: string; broken: boolean }[] = await read('routes');
    const own = routes.filter(({ path }) => !path.startsWith('/-/'));
    assert.deepEqual(
      own.map(({ path, lane: name, broken }) => [path, name, broken]),
      [
        ['/slow', 'searches', true],
        ['/plain', 'default', false],
      ],
    );
    const { parts } = await read('stats');
    assert.deepEqual(new Set(Object.keys(parts)), new Set(['default', 'operator', 'searches']));
    assert.equal(parts.searches.stats.finished, 1);
  });
});
