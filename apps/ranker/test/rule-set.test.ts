import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkRule, RuleSet } from '../src/reader/rule-set.ts';
import type { NewRule, ReaderRule } from '../src/storage/rules.ts';
import { articleOf } from './fixtures/articles.ts';

const mute = (field: NewRule['field'], value: string): NewRule => {
  return { kind: 'mute', field, value, points: 0 };
};

const rulesOf = (...rules: readonly NewRule[]): RuleSet =>
  new RuleSet(rules.map((rule, index): ReaderRule => ({ ...rule, id: `r${index}` })));

describe('rules', () => {
  const article = articleOf({
    id: 'a',
    title: 'Rocket engine tested: 3 seconds of fire',
    lead: 'The new ENGINE ran at dawn.',
    source: 'space.example.org',
    feedId: 'f1',
    author: 'Ada Writer',
    tags: ['Birds', 'Engines'],
  });
  const cases: readonly (readonly [NewRule['field'], string, boolean])[] = [
    ['source', 'example.org', true],
    ['source', 'space.example.org', true],
    ['source', 'ample.org', false],
    ['feed', 'f1', true],
    ['feed', 'f2', false],
    ['author', 'ada', true],
    ['author', 'bob', false],
    ['tag', 'BIRDS', true],
    ['tag', 'bird', false],
    ['words', 'engine rocket', true],
    ['words', 'Dawn', true],
    ['words', 'eng', false],
    ['words', 'rocket boat', false],
    ['pattern', '^rocket\\b.*\\d seconds', true],
    ['pattern', 'the new engine', true],
    ['pattern', '^engine', false],
  ];
  for (const [field, value, applies] of cases) {
    it(`of ${field} "${value}" ${applies ? 'apply' : 'do not apply'} to an article`, () => {
      const ruleSet = rulesOf(checkRule(mute(field, value)));
      // On a busy machine a pattern may have its time taken away, and is tried again.
      for (let tries = 1; tries < 20; tries += 1) ruleSet.verdicts([article]);
      assert.equal(ruleSet.verdicts([article]).get('a')?.isMuted, applies ? true : undefined);
      assert.deepEqual(ruleSet.tooSlow, []);
    });
  }

  it('mute whatever boosts say, and add up the points of all boosts', () => {
    const boost = { kind: 'boost', field: 'words', value: 'rocket', points: 2 } as const;
    const other = { kind: 'boost', field: 'source', value: 'example.org', points: -3 } as const;
    const both = rulesOf(boost, other).verdicts([article, articleOf({ id: 'b' })]);
    assert.deepEqual(
      [...both],
      [
        ['a', { isMuted: false, points: -1 }],
        ['b', { isMuted: false, points: -3 }],
      ],
    );
    const muted = rulesOf(mute('words', 'fire'), boost).verdicts([article]);
    assert.deepEqual(muted.get('a'), { isMuted: true, points: 2 });
  });

  const refused: readonly (readonly [string, NewRule, RegExp])[] = [
    ['nothing', mute('words', '  '), /1 to 200 characters/],
    ['nothing but a NUL', mute('pattern', '\0'), /1 to 200 characters/],
    ['a pattern without its NUL no more', mute('pattern', '(\0?)'), /must be whole/],
    ['no word', mute('words', '!?'), /needs a word/],
    ['too much', mute('words', 'x'.repeat(201)), /1 to 200 characters/],
    ['half a pattern', mute('pattern', '(a'), /must be whole/],
    ['a backslash that means nothing', mute('pattern', '\\y'), /not a pattern/],
    ['a repetition inside a repetition', mute('pattern', '(a+)+$'), /repetition inside/],
    ['a boost of 0', { ...mute('words', 'a'), kind: 'boost' }, /from -9 to 9/],
    ['a boost of 10', { kind: 'boost', field: 'words', value: 'a', points: 10 }, /from -9 to 9/],
    ['a boost of NaN', { kind: 'boost', field: 'words', value: 'a', points: NaN }, /from -9 to 9/],
  ];
  for (const [what, rule, message] of refused) {
    it(`are refused with 422 if they are ${what}`, () => {
      assert.throws(() => checkRule(rule), { code: 'INPUT_INVALID', status: 422, message });
    });
  }

  it('give up a pattern that takes for ever though it looks harmless', () => {
    const slow = checkRule(mute('pattern', '(a|a)*b'));
    const title = 'a'.repeat(60);
    const ruleSet = rulesOf(slow, mute('words', 'other'));
    const others = [articleOf({ id: 'x', title }), articleOf({ id: 'y', title: 'other' })];
    // The time of this thread, whatever else the machine has to do.
    const begun = process.threadCpuUsage();
    for (let round = 0; round < 5 || ruleSet.tooSlow.length === 0; round += 1) {
      assert.deepEqual([...ruleSet.verdicts(others).keys()], ['y']);
    }
    const used = process.threadCpuUsage(begun);
    const ms = (used.user + used.system) / 1_000;
    assert.deepEqual(ruleSet.tooSlow, ['r0']);
    assert.ok(ms < 1_000, `${ms} ms`);
    const rules = [{ ...slow, id: 'again' }];
    assert.deepEqual(new RuleSet(rules, ruleSet).tooSlow, ['again'], 'what is known stays known');
  });
});
