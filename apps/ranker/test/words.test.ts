import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fit, untrained } from '../src/learn/model.ts';
import { commonOf, emptyNeighbours, rowMean } from '../src/learn/rows.ts';
import { findNearest, Scorer } from '../src/learn/scorer.ts';
import { isEnglish } from '../src/learn/sentences.ts';
import { bucketOf, labelsOf, wordsOf } from '../src/learn/words.ts';
import { ratedRows } from './fixtures/rated-rows.ts';
import { model, VectorScene } from './vector-scene.ts';

describe('the words of an article', () => {
  it('have its author and its tags among them, which no text can pretend to be', () => {
    const labels = [...labelsOf({ author: ' Ann Author ', tags: ['Sea', 'work'] })];
    assert.deepEqual(labels, ['by ann author', '#sea', '#work']);
    const { keys } = wordsOf({ title: 'by', text: 'ann author', author: 'Ann Author' });
    const plain = wordsOf({ title: 'by', text: 'ann author' });
    assert.ok(keys.includes(bucketOf('by ann author')));
    assert.ok(!plain.keys.includes(bucketOf('by ann author')));
  });

  for (const [name, labels] of [
    ['author', (isLiked: boolean) => ({ author: isLiked ? 'Ann Author' : 'Bob Writer' })],
    ['tag', (isLiked: boolean) => ({ tags: [isLiked ? 'sailing' : 'celebrities'] })],
  ] as const) {
    it(`tell what a reader likes by the ${name} where all else is the same`, () => {
      const [about] = new VectorScene(1).all(1);
      assert.ok(about !== undefined);
      const text = { title: 'Notes of the week', text: 'The harbour was quiet again.' };
      const rated = Array.from({ length: 14 }, (_, at) => {
        const isLiked = at % 2 === 0;
        const words = wordsOf({ ...text, ...labels(isLiked) });
        const score = isLiked ? 9 : 2;
        return { ...about, id: `article ${at}`, score, document: { ...about.document, words } };
      });
      const rows = ratedRows(rated, model.dimension, new Map());
      const past = ratedRows(rated.slice(0, 12), model.dimension, new Map());
      const taste = fit(past, commonOf(rows), untrained, { halfLifeMs: 1e15 });
      const scorer = new Scorer({ rows: past, model: taste });
      const [liked, other] = [12, 13].map((row) => {
        const list = emptyNeighbours(1);
        findNearest(past, rowMean(rows, row), list, 0);
        return scorer.score(rows, row, list, { source: 0, now: about.ratedAt, place: 0 });
      }) as [number, number];
      assert.ok(liked > other + 1, `${liked} and ${other}`);
    });
  }
});

describe('the language of a text', () => {
  it('is told for the page, which says where topics are not known', () => {
    const texts = {
      'The bank raised its rate again, and the markets were quiet for most of the day.': true,
      'Die Bank hat den Zins wieder erhöht, und an den Börsen blieb es heute ruhig.': false,
      'La banque a encore relevé son taux, et les marchés sont restés calmes ce jour.': false,
      'Банк снова повысил ставку, и рынки были спокойны весь день, сообщили аналитики.': false,
      '香港行政长官在各方压力下就其大宅的违章建筑问题到立法会接受质询。': false,
      'Sourdough bread at home': true,
      'Новый телескоп': false,
    };
    for (const [text, isKnown] of Object.entries(texts))
      assert.equal(isEnglish(text), isKnown, text);
  });
});
