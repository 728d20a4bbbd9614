import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, mkdtempDisposable, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { SpillwayError } from 'spillway';
import type { EmbeddedDocument, RatedArticle } from '../src/learn/document.ts';
import { Embedder } from '../src/learn/embedder.ts';
import { defaultModel } from '../src/learn/embedding-model.ts';
import { quality } from '../src/learn/evaluation.ts';
import { Tastes } from '../src/learn/tastes.ts';
import { labelledTopics } from './labelled-texts.ts';
import { StoredTastes } from './vector-scene.ts';

const now = 1_700_000_000_000;
const cosine = (one: Float32Array, other: Float32Array) =>
  one.reduce((sum, value, at) => sum + value * (other[at] as number), 0);

describe('the embedder', () => {
  let embedder: Embedder;
  let labelled: RatedArticle[];
  before(async () => {
    embedder = await Embedder.open({ workers: 1, articlesMax: 100 });
    const all = labelledTopics.flatMap(({ topic, score, articles }) =>
      articles.map(([title, text], at) => ({ id: `${topic} ${at}`, title, text, score })),
    );
    const documents = await Promise.all(all.map((each) => embedder.embed(each)));
    labelled = all.map(({ id, score }, at) => {
      const document = documents[at] as EmbeddedDocument;
      return { id, score, source: 'host', publishedAt: undefined, ratedAt: now, document };
    });
  });
  after(() => embedder.close());

  it('leaves nothing in the home folder: its library keeps no id of the machine', async () => {
    await using home = await mkdtempDisposable(join(tmpdir(), 'ranker-home-'));
    const module = new URL('../src/learn/embedder.ts', import.meta.url).href;
    const program = `import { Embedder } from '${module}';
      await using embedder = await Embedder.open({ workers: 1 });
      await embedder.embed({ title: 'A title', text: 'One sentence.' });`;
    const { ORT_DISABLE_TELEMETRY, NODE_TEST_CONTEXT, ...env } = process.env;
    const args = ['--input-type=module', '--eval', program];
    await promisify(execFile)(process.execPath, args, { env: { ...env, HOME: home.path } });
    assert.deepEqual(await readdir(home.path), []);
  });

  it('names its model and makes vectors of length 1, the same for the same text', async () => {
    const { model } = embedder;
    assert.deepEqual(model, { id: 'Xenova/all-MiniLM-L6-v2', precision: 'int8', dimension: 384 });
    const article = { title: 'A title', text: 'The first sentence is here. Then a second one.' };
    const one = await embedder.embed(article);
    const [again] = await Promise.all([embedder.embed(article), embedder.embed(article)]);
    assert.deepEqual(again, one);
    assert.equal(one.model, model);
    assert.deepEqual([one.sentences.length, one.length], [2 * 384, 9]);
    for (const vector of [one.mean, one.title, one.sentences.subarray(384)]) {
      assert.ok(Math.abs(cosine(vector, vector) - 1) < 1e-5);
    }
  });

  it('knows what is alike', async () => {
    const of = async (text: string) => (await embedder.embed({ title: '', text })).mean;
    const cat = await of('A cat sleeps on the sofa.');
    const kitten = await of('The kitten is napping on the couch.');
    const bank = await of('The bank raised its interest rate.');
    assert.ok(cosine(cat, kitten) > 0.5 && cosine(cat, bank) < 0.3);
  });

  it('makes zeros of nothing, and of a title alone what the title says', async () => {
    const nothing = await embedder.embed({ title: ' ', text: '\n' });
    assert.ok(nothing.mean.every((value) => value === 0));
    assert.equal(nothing.sentences.length, 0);
    const title = await embedder.embed({ title: 'Only a title', text: '' });
    assert.ok(cosine(title.mean, title.title) > 0.9999);
    const text = await embedder.embed({ title: '', text: 'Only one sentence of text.' });
    assert.ok(text.title.every((value) => value === 0));
    assert.ok(cosine(text.mean, text.sentences) > 0.9999);
  });

  it('has the title in the vector however long the text is', async () => {
    const text = 'Comments. '.repeat(8);
    const bread = await embedder.embed({ title: 'Sourdough bread at home', text });
    const stars = await embedder.embed({ title: 'A telescope finds a galaxy', text });
    assert.ok(cosine(bread.mean, stars.mean) < 0.9, `${cosine(bread.mean, stars.mean)}`);
    const dough = await embedder.embed({ title: 'How to bake a loaf of bread', text: '' });
    assert.ok(cosine(dough.mean, bread.mean) > cosine(dough.mean, stars.mean) + 0.1);
  });

  it('embeds no more than the first sentences of a long text, and cuts long ones', async () => {
    const long = await embedder.embed({ title: '', text: 'This is one of many. '.repeat(5_000) });
    assert.deepEqual([long.sentences.length, long.length], [16 * 384, 25_000]);
    const wide = await embedder.embed({ title: '', text: 'word '.repeat(3_000) });
    assert.equal(wide.sentences.length, 384);
  });

  it('learns as the seed did: tech rated 10 and gossip rated 1', async () => {
    const stored = new StoredTastes();
    const [tech, gossip] = [labelled[0], labelled[50]] as [RatedArticle, RatedArticle];
    stored.all.set('reader', { rated: [tech, gossip] });
    const { model } = embedder;
    await using tastes = await Tastes.open({ model, load: stored.load, workers: 1 });
    const of = async (article: RatedArticle | undefined) =>
      (await tastes.score('reader', article as RatedArticle, { now })).score;
    assert.ok((await of(tech)) > 9.9 && (await of(gossip)) < 1.1);
    // What it has never seen is the harder part.
    for (const [like, dislike] of [
      [1, 51],
      [2, 52],
      [7, 53],
      [9, 55],
    ] as const) {
      const [high, low] = [await of(labelled[like]), await of(labelled[dislike])];
      assert.ok(
        high > low,
        `${high} for ${labelled[like]?.id}, ${low} for ${labelled[dislike]?.id}`,
      );
    }
    assert.ok((await of(labelled[9])) > 5.5);
  });

  it('scores articles it has not seen as their reader would', async () => {
    const isSeen = (_: RatedArticle, at: number) => at % 2 === 0;
    const stored = new StoredTastes();
    stored.all.set('half', { rated: labelled.filter(isSeen) });
    const { model } = embedder;
    await using tastes = await Tastes.open({ model, load: stored.load, workers: 1 });
    const unseen = labelled.filter((each, at) => !isSeen(each, at));
    for (const each of unseen) tastes.table.put(each);
    const asked = unseen.map(({ id }) => id);
    const { scores } = await tastes.rank('half', asked, { now });
    const { auc, ndcg10, spearman, mae } = quality(
      [...scores],
      unseen.map(({ score }) => score),
    );
    const found = JSON.stringify({ auc, ndcg10, spearman, mae });
    assert.ok(auc > 0.9 && ndcg10 > 0.88 && spearman > 0.8 && mae < 1.5, found);
  });
});

describe('the workers of an embedder', () => {
  it('let short articles pass, refuse what is too much, and are replaced unnoticed', async () => {
    const options = { workers: 1, sentencesMax: 24, articlesMax: 4, workerAgeMsMax: 100 };
    await using embedder = await Embedder.open(options);
    const long = {
      title: '',
      text: 'This is the sentence of a long text that goes on. '.repeat(24),
    };
    const short = { title: 'Short', text: '' };
    const ended: string[] = [];
    const expected = await embedder.embed(short);
    const note = (name: string) => () => ended.push(name);
    const work: Promise<unknown>[] = [1, 2, 3].map(() => embedder.embed(long).then(note('long')));
    const brief = embedder.embed(short);
    work.push(brief.then(note('short')));
    await assert.rejects(embedder.embed(short), (error) => {
      assert.ok(error instanceof SpillwayError);
      assert.deepEqual([error.code, error.status], ['LANE_FULL', 503]);
      assert.ok(Number(error.headers['retry-after']) >= 1);
      return true;
    });
    await Promise.all(work);
    assert.equal(ended[0], 'short');
    assert.deepEqual(await brief, expected);
    while (embedder.stats.pool.recycled < 1) {
      assert.deepEqual(await embedder.embed(short), expected);
    }
    assert.deepEqual(await embedder.embed(short), expected);
    assert.deepEqual([embedder.stats.pool.lost, embedder.stats.pool.lastError], [0, undefined]);
    const abort = new AbortController();
    const given = embedder.embed(long, { signal: abort.signal });
    abort.abort(new Error('the reader left'));
    await assert.rejects(given, /the reader left/);
  });

  it('let a long article end beside all short ones that are let in', async (test) => {
    const patient = { workers: 1, sentencesMax: 24, deadlineMs: 250_000 };
    await using embedder = await Embedder.open(patient);
    const sentence = 'This is the sentence of a long text that goes on. ';
    let ended = 0;
    let isOver = false;
    /** Asks for one short text after another, as long as the long one is not there. */
    const client = async (key: string) => {
      for (let at = 0; !isOver; at += 1) {
        const text = `${sentence}Number ${at} is a short one of ${key}. `.repeat(2);
        await embedder.embed({ title: '', text }, { key });
        ended += 1;
      }
    };
    const clients = Array.from({ length: 8 }, (_, at) => client(`client ${at}`));
    // A batch of one user works on eight at a time, and is at it for longer than this takes.
    const batch = Array.from({ length: 8 }, () => client('batch'));
    // All that the lane lets in besides, of users who come once and again.
    const crowd = Array.from({ length: 40 }, (_, at) => client(`user ${at}`));
    while (ended < 8) await new Promise((resolve) => setImmediate(resolve));
    const [before, startedAt] = [ended, performance.now()];
    await embedder.embed({ title: '', text: sentence.repeat(24) }, { key: 'long' });
    isOver = true;
    const passed = ended - before;
    const tookMs = performance.now() - startedAt;
    await Promise.all([...clients, ...batch, ...crowd]);
    test.diagnostic(`${passed} short ones in ${tookMs} ms`);
    // It waits for 56 others to begin, then with each of its six parts for eight; users who share
    // a place in the queue by chance may double that.
    assert.ok(passed <= 2 * (56 + 6 * 8), `${passed} short articles ended before a long one`);
  });

  it('say what is wrong with a model that cannot be loaded', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'no-model-'));
    const model = { ...defaultModel(), folder };
    await assert.rejects(Embedder.open({ model, workers: 1 }), { code: 'POOL_START' });
    await rm(folder, { recursive: true });
    const odd = { ...defaultModel(), precision: 'int3' as 'int8' };
    await assert.rejects(Embedder.open({ model: odd }), /model.precision: must be one of fp16/);
  });
});
