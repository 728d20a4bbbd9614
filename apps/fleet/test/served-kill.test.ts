import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newSprt } from '../src/statistics/sprt.ts';
import { spsaArgs } from './fixtures/fleet-scene.ts';
import { KillRounds } from './fixtures/kill-rounds.ts';
import { ServedScene } from './fixtures/served-scene.ts';

/** `npm run test:kills` has more of them. */
const { SPILLWAY_KILLS: rounds = '40' } = process.env;
/** A round takes 2 s on a quiet machine, and 10 beside others. */
const timeout = 1_200_000;

describe('a fleet that is killed under load', () => {
  it(`has every acknowledged game, ${rounds} times`, { timeout }, async () => {
    await using scene = await ServedScene.open({ hasSpare: true });
    await scene.run({ num_games: 3_000_000 });
    // Bounds on both sides of what is true: it does not end while this test lasts.
    const sprt = newSprt({ elo0: -1, elo1: 1, elo_model: 'normalized', batch_size: 8 });
    await scene.run({ sprt, num_games: 800_000 });
    await scene.run(spsaArgs(3_000_000));
    const kills = new KillRounds(scene, 12);
    await kills.play(Number(rounds));
    const { tasks, games } = kills.taken;
    assert.ok(
      tasks > Number(rounds) && games > 10 * Number(rounds),
      `${tasks} tasks, ${games} games`,
    );
    assert.equal(await scene.server.kill('SIGTERM'), 0);
    scene.assertNoFailures();
  });
});
