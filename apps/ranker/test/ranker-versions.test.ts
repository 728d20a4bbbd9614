import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { RankerSite } from './fixtures/ranker-site.ts';

const topics = {
  liked: ['The compiler removes dead code.', 'A kernel schedules its threads fairly.'],
  disliked: ['The singer wore a silver dress.', 'Fans wait for the wedding of the star.'],
};

/** A short text about one or the other, each a little different. */
function textOf(kind: keyof typeof topics, number: number): string {
  const [first = '', second = ''] = topics[kind];
  return `${first} ${second} This is story number ${number} of ${(number * 7) % 31}.`;
}

describe('a ranker with its real model, while it trains and replaces workers', () => {
  const stack = new AsyncDisposableStack();
  let site: RankerSite;

  before(async () => {
    // Workers live for a moment only, so that they are replaced again and again meanwhile.
    const often = { workers: 1, workerAgeMs: 1_000, sentencesMax: 4 };
    site = stack.use(await RankerSite.open({ embedder: 'real', ...often }));
  });

  after(() => stack.disposeAsync());

  it('answers every request, each by one version that was published', async () => {
    const { training, embedder } = site.ranker;
    const recycled = (): number => (embedder.stats as { pool: { recycled: number } }).pool.recycled;
    /** The score of each text by each version: by one version it can only get one score. */
    const said = new Map<string, number>();
    const versions = new Set<number>();
    let [answers, trainings] = [0, 0];
    let isOver = false;
    const asker = async (kind: keyof typeof topics, number: number): Promise<void> => {
      while (!isOver) {
        const text = textOf(kind, number);
        const body = { text, explain: true };
        const { status, json, text: told } = await site.ask('/rank', { body });
        assert.equal(status, 200, told);
        const points = json.explanation.contributions.map((one: { points: number }) => one.points);
        const sum = points.reduce((so: number, one: number) => so + one, 0);
        assert.ok(Math.abs(sum - json.rank) < 0.01, `its reasons add up to ${sum}: ${told}`);
        const key = `${json.version} ${text}`;
        assert.equal(
          said.get(key) ?? json.rank,
          json.rank,
          `version ${json.version} said two things`,
        );
        said.set(key, json.rank);
        versions.add(json.version);
        answers += 1;
      }
    };
    const askers = [asker('liked', 1), asker('disliked', 2), asker('liked', 3)];
    const acknowledged: number[] = [];
    // At least a dozen ratings, until all that is to happen meanwhile has happened.
    const isSeen = () => answers > 20 && versions.size > 5;
    const isDone = () => trainings >= 2 && recycled() >= 1 && isSeen();
    for (let number = 0; number < 12 || !isDone(); number += 1) {
      const kind = number % 2 === 0 ? 'liked' : 'disliked';
      const score = kind === 'liked' ? 9 : 2;
      const body = { text: textOf(kind, 100 + (number % 40)), score };
      const { status, json, text } = await site.ask('/correct_rank', { body });
      assert.equal(status, 200, text);
      acknowledged.push(json.version);
      assert.ok(Math.abs(json.rank - score) < 0.01, `what was just rated is known: ${text}`);
      if (number === 11) assert.equal((await site.ask('/retrain', { method: 'POST' })).status, 202);
      const history = await site.ranker.storage.trainings.list(site.userId, 10);
      assert.ok(history.every(({ status: how }) => how === 'completed' || how === 'running'));
      trainings = history.filter(({ kind: one }) => one === 'intensive').length;
      trainings += history.filter(({ kind: one }) => one === 'quick').length > 0 ? 1 : 0;
    }
    await training.idle();
    isOver = true;
    await Promise.all(askers);
    assert.deepEqual(
      acknowledged,
      acknowledged.toSorted((one, other) => one - other),
    );
    const asked = textOf('liked', 1);
    const { json: grown } = await site.ask('/rank', { body: { text: asked } });
    site.ranker.tastes.forget(site.userId);
    const { json: loaded } = await site.ask('/rank', { body: { text: asked } });
    assert.ok(loaded.version > grown.version);
    assert.ok(Math.abs(loaded.rank - grown.rank) < 0.01, 'as if made at once from all ratings');
    const liked = await site.ask('/rank', { body: { text: textOf('liked', 500) } });
    const disliked = await site.ask('/rank', { body: { text: textOf('disliked', 500) } });
    assert.ok(liked.json.rank > 6 && liked.json.rank > disliked.json.rank, liked.text);
    assert.deepEqual(site.ranker.server.app.recentErrors.list(), []);
  });
});
