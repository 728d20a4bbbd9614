import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { play, seeds } from './simulations/play.ts';

describe('Lease, with crashes, pauses, delays, lost answers and failures', () => {
  it('never has two holders, nor a write out of the order of the fences', async () => {
    const { turns, writes } = await play('lease');
    const isBusy = Number(turns) > seeds * 8 && Number(writes) > Number(turns);
    assert.ok(isBusy, `${turns} turns, ${writes} writes`);
  });
});
