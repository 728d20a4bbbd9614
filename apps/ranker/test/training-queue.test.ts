import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { systemClock } from 'spillway';
import type { RatedArticle } from '../src/learn/document.ts';
import { Tastes } from '../src/learn/tastes.ts';
import type { TrainingRecord } from '../src/learn/trained.ts';
import { TrainingQueue } from '../src/learn/training-queue.ts';
import { model, now, VectorScene } from './vector-scene.ts';

const clock = { ...systemClock, now: () => now };

describe('the training queue', () => {
  let tastes: Tastes;
  const rated = new Map<string, RatedArticle[]>();
  const records: TrainingRecord[] = [];
  const stored = new Map<string, Uint8Array>();
  let told: (record: TrainingRecord) => void = () => {};
  let queue: TrainingQueue;

  before(async () => {
    tastes = await Tastes.open({ model, workers: 1 });
    queue = await TrainingQueue.open({
      tastes,
      clock,
      rated: (user) => rated.get(user) ?? [],
      record: (record, trained) => {
        records.push(record);
        if (trained !== undefined) stored.set(record.user, trained);
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
    rated.set(user, articles);
    await tastes.load(user, { rated: articles });
  };

  it('returns at once, does what is asked for twice once, and keeps a history', async () => {
    await begin('once', new VectorScene(1).all(60, 1));
    const version = tastes.version('once');
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
    assert.ok((end?.errors?.ridge ?? 9) < (end?.errors?.constant ?? 0));
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

  it('gives bytes from which the same taste is made again', async () => {
    const scene = new VectorScene(3);
    const articles = scene.all(80, 1.5);
    await begin('stored', articles);
    queue.add('stored', 'intensive');
    await queue.idle();
    const asked = { ...scene.rated(1, 2), id: 'asked' };
    const { score } = await tastes.score('stored', asked, { now });
    tastes.forget('stored');
    await tastes.load('stored', { rated: articles, trained: stored.get('stored') });
    assert.equal((await tastes.score('stored', asked, { now })).score, score);
  });

  it('is cancelled in the middle, and before it begins', async () => {
    await begin('long', new VectorScene(4).all(400));
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
    assert.equal(tastes.version('long'), 1);
  });

  it('tells of a training that failed, and goes on', async () => {
    await begin('broken', []);
    rated.set('broken', undefined as unknown as RatedArticle[]);
    const broken = { [Symbol.iterator]: () => assert.fail('the database is away') };
    rated.set('broken', broken as unknown as RatedArticle[]);
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
    const { trained, tested, constant, ridge } = await queue.evaluate(turned, 1 / 3);
    assert.deepEqual([trained, tested], [60, 30]);
    assert.deepEqual([constant.auc, constant.spearman], [0.5, 0]);
    assert.ok(ridge.spearman < -0.8 && ridge.auc < 0.1, JSON.stringify(ridge));
    const honest = await queue.evaluate(articles, 1 / 3);
    assert.ok(honest.served.spearman > 0.8 && honest.served.ndcg10 > 0.9);
    assert.ok(honest.served.mae < honest.constant.mae / 2);
  });
});
