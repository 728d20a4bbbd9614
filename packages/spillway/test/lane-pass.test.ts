import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';

describe('Lane.pass', () => {
  it('gives a free permit at once, and asks only who must wait for its signal', async () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 1, deadlineMs: 1_000 });
    let asked = 0;
    const quitter = new AbortController();
    const entry = {
      get signal() {
        asked += 1;
        return quitter.signal;
      },
    };
    const permit = lane.pass(entry);
    assert.ok(!(permit instanceof Promise));
    assert.equal(asked, 0);
    const waiting = lane.pass(entry);
    assert.ok(waiting instanceof Promise);
    quitter.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
    await assert.rejects(async () => await lane.pass(entry), { name: 'AbortError' });
    assert.deepEqual([lane.stats.inside, lane.stats.refused.aborted], [1, 2]);
    permit[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0);
  });
});
