import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lane } from 'spillway';

describe('the way into a lane', () => {
  it('gives a free permit at once, and makes a signal only for who must wait', async () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 1, deadlineMs: 1_000 });
    let made = 0;
    const quitter = new AbortController();
    const entry = {
      makeSignal() {
        made += 1;
        return quitter.signal;
      },
    };
    const permit = lane.enter(entry);
    assert.ok(!(permit instanceof Promise));
    assert.equal(made, 0);
    const waiting = lane.enter(entry);
    assert.ok(waiting instanceof Promise);
    assert.equal(made, 1);
    quitter.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
    assert.throws(() => lane.enter(entry), { name: 'AbortError' });
    assert.deepEqual([lane.stats.inside, lane.stats.refused.aborted], [1, 2]);
    permit[Symbol.dispose]();
    assert.equal(lane.stats.inside, 0);
  });

  it('is shut for a signal that has aborted, though a permit is free', () => {
    const lane = new Lane({ name: 'x', limit: 1, queueMax: 1, deadlineMs: 1_000 });
    const signal = AbortSignal.abort('gone');
    assert.throws(
      () => lane.enter({ signal }),
      (reason) => reason === 'gone',
    );
    assert.equal(lane.tryEnter({ signal }), undefined);
    assert.deepEqual([lane.stats.inside, lane.stats.refused.aborted], [0, 2]);
  });
});
