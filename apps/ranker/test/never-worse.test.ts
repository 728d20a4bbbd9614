// Slow: plays many simulated readers.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { readerTexts } from './fixtures/reader-texts.ts';
import {
  compareReaders,
  type EmbeddedText,
  type Outcome,
  unscaled,
  type Way,
} from './fixtures/simulated-readers.ts';
import { WordEmbedder } from './fixtures/word-embedder.ts';

const sizes = [0, 3, 5, 10, 20, 50, 150];
/** A difference of this share is chance: ten readers of 150 articles each. */
const chance = 0.02;

describe('scores on articles that they have not seen', () => {
  const outcomes = new Map<number, Outcome>();
  before(async () => {
    const embedder = new WordEmbedder();
    const texts: EmbeddedText[] = [];
    for (const text of readerTexts(320)) {
      texts.push({ ...text, document: await embedder.embed(text) });
    }
    for (const outcome of compareReaders(texts, sizes, 1)) {
      outcomes.set(outcome.ratings, outcome);
    }
  });

  for (const ratings of sizes) {
    it(`err no more than simpler ones with ${ratings} ratings`, () => {
      const { errors, slope, coverage } = outcomes.get(ratings) ?? assert.fail();
      for (const [way, error] of Object.entries(errors)) {
        if (unscaled.has(way as Way)) continue;
        assert.ok(errors.served <= error * (1 + chance), `${errors.served}, ${way} ${error}`);
      }
      assert.ok(coverage > 0.75 && coverage < 0.92, `${coverage} within what was told`);
      // With fewer ratings ten readers say nothing of it: the bench has more of them.
      if (ratings >= 50) assert.ok(slope > 0.85 && slope < 1.15, `slope ${slope}`);
    });
  }

  it('order articles as well as simpler ones where there is something to learn from', () => {
    for (const ratings of [50, 150]) {
      const { aucs } = outcomes.get(ratings) ?? assert.fail();
      for (const [way, auc] of Object.entries(aucs)) {
        assert.ok(aucs.served >= auc - chance, `${ratings}: ${aucs.served}, ${way} ${auc}`);
      }
    }
  });
});
