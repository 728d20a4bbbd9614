// Slow: trains many times.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { systemClock } from 'spillway';
import type { RatedArticle } from '../src/learn/document.ts';
import type { Choice } from '../src/learn/model.ts';
import { Tastes } from '../src/learn/tastes.ts';
import { TrainingQueue, type TrainingRecord } from '../src/learn/training-queue.ts';
import { model, now, StoredTastes, VectorScene } from './vector-scene.ts';

const clock = { ...systemClock, now: () => now };

describe('the training queue', () => {
  let tastes: Tastes;
  const tasted = new StoredTastes();
  const records: TrainingRecord[] = [];
  const stored = new Map<string, Choice>();
  let told: (record: TrainingRecord) => void = () => {};
  let queue: TrainingQueue;

  before(async () => {
    tastes = await Tastes.open({ model, load: tasted.load, workers: 1 });
    queue = await TrainingQueue.open({
      tastes,
      clock,
      record: (record, choice) => {
        records.push(record);
        if (choice !== undefined) stored.set(record.user, choice);
        told(record);
      },
    });
  });
  after(async () => {
    await queue.close();
    await tastes.close();
  });

  const begin = async (user: string, articles: RatedArticle[]) => {
    records.length = 0;
    tastes.forget(user);
    tasted.all.set(user, { rated: articles });
    return (await tastes.current(user)).version;
  };

  it('returns at once, does what is asked for twice once, and keeps a history', async () => {
    const version = await begin('once', new VectorScene(1).all(60, 1));
    const asked = [
      queue.add('once', 'quick'),
      queue.add('once', 'intensive'),
      queue.add('once', 'quick'),
    ];
    assert.deepEqual(asked, ['added', 'merged', 'merged']);
    assert.equal(records.length, 0);
    await queue.idle();
    assert.deepEqual(
      records.map(({ status }) => status),
      ['running', 'completed'],
    );
    const [, end] = records;
    assert.deepEqual([end?.kind, end?.samples, end?.progress], ['intensive', 60, 1]);
    assert.ok((end?.errors?.topic ?? 9) < (end?.errors?.constant ?? 0));
    assert.equal(end?.version, version + 1);
    assert.equal(queue.running, undefined);
  });

  it('publishes what it found together with ratings that came meanwhile', async () => {
    const scene = new VectorScene(2);
    await begin('meanwhile', scene.all(60));
    const late = scene.rated(60);
    const reached = new Promise<void>((resolve) => {
      told = () => resolve();
    });
    queue.add('meanwhile', 'quick');
    await reached;
    await tastes.rate('meanwhile', [late]);
    await queue.idle();
    const { explanation } = await tastes.score('meanwhile', late, { now });
    assert.equal(explanation.neighbours[0]?.id, late.id);
    assert.equal(records.at(-1)?.status, 'completed');
  });

  it('gives a choice from which the same taste is made again', async () => {
    const scene = new VectorScene(3);
    const articles = scene.all(80, 1.5);
    await begin('stored', articles);
    queue.add('stored', 'intensive');
    await queue.idle();
    const asked = { ...scene.rated(1, 2), id: 'asked' };
    const { score } = await tastes.score('stored', asked, { now });
    tastes.forget('stored');
    tasted.all.set('stored', { rated: articles, choice: stored.get('stored') });
    assert.ok(stored.has('stored'));
    assert.equal((await tastes.score('stored', asked, { now })).score, score);
  });

  it('is cancelled in the middle, and before it begins', async () => {
    const version = await begin('long', new VectorScene(4).all(400));
    await begin('waiting', new VectorScene(5).all(20));
    const running = new Promise<void>((resolve) => {
      told = () => resolve();
    });
    queue.add('long', 'intensive');
    queue.add('waiting', 'quick');
    await running;
    assert.equal(queue.running?.user, 'long');
    assert.equal(queue.cancel('waiting'), true);
    assert.equal(queue.cancel('nobody'), false);
    assert.equal(queue.cancel('long'), true);
    await queue.idle();
    assert.deepEqual(
      records.map(({ user, status }) => `${user} ${status}`),
      ['long running', 'long cancelled'],
    );
    assert.equal((await tastes.current('long')).version, version);
  });

  it('tells of a training that failed, and goes on', async () => {
    await begin('broken', []);
    tastes.forget('broken');
    const broken = { [Symbol.iterator]: () => assert.fail('the database is away') };
    tasted.all.set('broken', {
      rated: Object.assign([], broken, { slice: broken[Symbol.iterator] }),
    });
    queue.add('broken', 'quick');
    await queue.idle();
    const { status, error } = records.at(-1) as TrainingRecord;
    assert.deepEqual([status, error], ['failed', 'the database is away']);
    await begin('next', new VectorScene(6).all(3));
    queue.add('next', 'quick');
    await queue.idle();
    assert.equal(records.at(-1)?.status, 'completed');
  });

  it('evaluates on ratings that came later than all it learned from', async () => {
    const articles = new VectorScene(7)
      .all(90, 1)
      .map((each, at) => ({ ...each, ratedAt: now + at }));
    // The newest third is rated the other way round: who had seen it would know.
    const turned = articles.map((each, at) =>
      at < 60 ? each : { ...each, score: 11 - each.score },
    );
    await begin('turned', turned);
    await begin('honest', articles);
    const { trained, tested, constant, topic } =
      (await queue.evaluate('turned', 1 / 3)) ?? assert.fail();
    assert.deepEqual([trained, tested], [60, 30]);
    assert.deepEqual([constant.auc, constant.spearman], [0.5, 0]);
    assert.ok(topic.spearman < -0.8 && topic.auc < 0.1, JSON.stringify(topic));
    const honest = (await queue.evaluate('honest', 1 / 3)) ?? assert.fail();
    assert.ok(honest.served.spearman > 0.8 && honest.served.ndcg10 > 0.9);
    assert.ok(honest.served.mae < honest.constant.mae / 2);
    assert.ok(honest.slope > 0.8 && honest.slope < 1.25, `slope ${honest.slope}`);
    assert.ok(honest.coverage > 0.6, `coverage ${honest.coverage}`);
  });

  it('takes nothing that does not err less than what is in use', async () => {
    const scene = new VectorScene(8);
    const chance = scene.all(60).map((each) => ({ ...each, score: 1 + 9 * scene.random() }));
    await begin('chance', chance);
    queue.add('chance', 'intensive');
    await queue.idle();
    const { errors } = records.at(-1) as TrainingRecord;
    assert.ok((errors?.served ?? 9) < 1.1 * (errors?.constant ?? 0), JSON.stringify(errors));
    const before = await tastes.current('chance');
    queue.add('chance', 'intensive');
    await queue.idle();
    assert.equal(records.at(-1)?.version, undefined);
    assert.equal((await tastes.current('chance')).version, before.version);
  });
});
