import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eloEstimate } from '../src/statistics/elo.ts';
import { newSprt } from '../src/statistics/sprt.ts';
import { gamesOf } from '../src/world/world.ts';
import { spsaArgs } from './fixtures/fleet-scene.ts';
import { ServedScene } from './fixtures/served-scene.ts';

/** A sequential test that needs few games. */
function sprtArgs() {
  const sprt = newSprt({ elo0: 0, elo1: 20, elo_model: 'normalized', batch_size: 8 });
  return { sprt, num_games: 40_000 };
}

describe('a served fleet', () => {
  it('plays a run of fixed games to its end', async () => {
    await using scene = await ServedScene.open();
    const id = await scene.run({ num_games: 1000 });
    for (let count = 0; count < 4; count += 1) scene.worker({ elo: 30 });
    const { record, tasks } = await scene.playOut(id);
    assert.equal(gamesOf(record.results), 1000);
    assert.ok(tasks.every((task) => !task.active));
    const { elo, error95 } = eloEstimate(record.results.pentanomial);
    assert.ok(Math.abs(elo - 30) < 2 * error95, `${elo}`);
    const stored = scene.stored();
    stored.assertBalanced();
    stored.assertHolds(scene.workers.flatMap(({ played }) => played));
    assert.match(stored.actions.at(-1)?.message ?? '', /^Result:\w+ Elo:.* Games:1000 Ptnml:/);
    scene.assertNoFailures();
  });

  it('accepts a strong patch and rejects a weak one', async () => {
    for (const [elo, state] of [
      [40, 'accepted'],
      [-20, 'rejected'],
    ] as const) {
      await using scene = await ServedScene.open();
      const id = await scene.run(sprtArgs());
      for (let count = 0; count < 4; count += 1) scene.worker({ elo });
      const { record } = await scene.playOut(id);
      assert.equal(record.args.sprt?.state, state);
      assert.equal(record.is_green, elo > 0);
      assert.ok(gamesOf(record.results) < 20_000, 'it needed too many games');
      scene.stored().assertBalanced();
      scene.assertNoFailures();
    }
  });

  it('tunes parameters towards what plays best', async () => {
    await using scene = await ServedScene.open();
    const id = await scene.run(spsaArgs(4000));
    // Tempo starts at 10; each step towards 20 is worth 30 Elo.
    const strength = (values: ReadonlyMap<string, number>): number =>
      -30 * Math.abs((values.get('Tempo') ?? 0) - 20);
    for (let count = 0; count < 4; count += 1) scene.worker({ strength });
    const { record } = await scene.playOut(id);
    assert.equal(gamesOf(record.results), 4000);
    const { spsa } = record.args;
    assert.equal(spsa?.iter, 2000);
    const tempo = spsa?.params[0]?.theta ?? 0;
    assert.ok(tempo > 11, `Tempo is ${tempo}`);
    scene.stored().assertBalanced();
    scene.assertNoFailures();
  });

  it('lets others play what crashing, failing and vanishing workers leave', async () => {
    await using scene = await ServedScene.open();
    const id = await scene.run({ num_games: 1000 });
    scene.worker({ mishaps: { crashes: 1 } });
    scene.worker({ mishaps: { timeLosses: 6 } });
    scene.worker({ mishaps: { failAfter: 1 } });
    scene.worker({ mishaps: { vanishAfter: 1 } });
    scene.worker();
    assert.equal(await scene.workers[3]?.turn(), 'vanished');
    // Nobody hears of it for more than six minutes.
    await scene.server.ask({ do: 'jump', ms: 430_000 });
    const { record } = await scene.playOut(id);
    assert.equal(gamesOf(record.results), 1000);
    const stored = scene.stored();
    stored.assertBalanced();
    const kinds = new Set(stored.actions.map(({ action }) => action));
    for (const kind of [
      'crash_or_time',
      'dead_task',
      'failed_task',
      'worker_log',
      'finished_run',
    ]) {
      assert.ok(kinds.has(kind), `${kind} is not in ${[...kinds]}`);
    }
    scene.assertNoFailures();
  });
});
