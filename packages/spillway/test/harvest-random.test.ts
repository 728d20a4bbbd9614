import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { play, seeds } from './simulations/play.ts';

describe('Harvest, with crashes, sleep, lost leases, lost answers and failures', () => {
  it('commits every row once and in order, and no checkpoint ahead of its rows', async () => {
    const { steps, lives } = await play('harvest');
    const isBusy = Number(steps) > 100 && Number(lives) > seeds / 2;
    assert.ok(isBusy, `${steps} places to crash, ${lives} lives`);
  });
});
