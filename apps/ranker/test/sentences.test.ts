import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { countWords, sentencesOf } from '../src/learn/sentences.ts';

describe('sentences', () => {
  it('end where a reader would say so, not at titles, initials and decimals', () => {
    const text = 'Mr. J. Smith paid $3.50 for it. He left the U.S. Army early. "Why?" she asked.';
    assert.deepEqual(sentencesOf(text), [
      'Mr. J. Smith paid $3.50 for it.',
      'He left the U.S. Army early.',
      '"Why?" she asked.',
    ]);
  });

  it('are found in scripts without spaces', () => {
    assert.deepEqual(sentencesOf('東京は日本の首都です。人口は多い。'), [
      '東京は日本の首都です。',
      '人口は多い。',
    ]);
  });

  it('are none in an empty text, and never more than asked for', () => {
    assert.deepEqual(sentencesOf(' \n\t '), []);
    assert.equal(sentencesOf('One more sentence here. '.repeat(900)).length, 400);
    assert.equal(sentencesOf('One more sentence here. '.repeat(9), 4).length, 4);
  });

  it('count words, and single characters where there are no spaces', () => {
    assert.equal(countWords('one  two\nthree'), 3);
    assert.equal(countWords('人口は多い。'), 6);
    assert.equal(countWords(''), 0);
  });
});
