import assert, { AssertionError } from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Clock, systemClock } from 'spillway';
import {
  anything,
  callback,
  flag,
  instance,
  integer,
  maybe,
  number,
  oneOf,
  or,
  positive,
  type Rule,
  settle,
  word,
} from 'spillway/internal';

interface Wanted {
  readonly name: string;
  readonly limit?: number | undefined;
  readonly mode?: 'fast' | 'safe' | undefined;
  readonly onDrop?: ((item: string) => void) | undefined;
  readonly clock?: Clock | undefined;
}

const rules = {
  name: word,
  limit: or(integer(1, 64), 8),
  mode: or(oneOf('fast', 'safe'), 'safe'),
  onDrop: maybe(callback),
  clock: or(anything, systemClock),
} as const;

const complaint = (options: object): string => {
  try {
    settle('Part', options as Wanted, rules);
  } catch (error) {
    assert.ok(error instanceof AssertionError);
    return error.message;
  }
  return 'none';
};

describe('settle', () => {
  it('fills in the defaults, and keeps what is given', () => {
    const settled = settle('Part', { name: 'a', mode: 'fast' } as Wanted, rules);
    // The types say it, too: only what has no default may be undefined.
    const limit: number = settled.limit;
    const onDrop: ((item: string) => void) | undefined = settled.onDrop;
    assert.deepEqual([limit, settled.mode, onDrop], [8, 'fast', undefined]);
    assert.equal(settled.clock, systemClock);
  });

  it('takes an undefined value for an absent one', () => {
    assert.equal(settle('Part', { name: 'a', limit: undefined } as Wanted, rules).limit, 8);
  });

  it('reads getters of a class as well', () => {
    class Given {
      get name() {
        return 'from a getter';
      }
    }
    assert.equal(settle('Part', new Given() as Wanted, rules).name, 'from a getter');
  });

  it('names owner, option, rule and value', () => {
    assert.equal(
      complaint({ name: 'a', limit: 65 }),
      'Part: limit: must be an integer from 1 to 64, got 65',
    );
    assert.equal(complaint({}), 'Part: name: must be a string that is not empty, got undefined');
  });

  it('refuses an option that it does not know, and says which one is like it, or all', () => {
    const unknown = (name: string) => complaint({ name: 'a', [name]: 1 });
    assert.equal(unknown('limits'), 'Part: limits: is not an option; did you mean limit?');
    assert.equal(unknown('on_drop'), 'Part: on_drop: is not an option; did you mean onDrop?');
    const all = `; there are: ${Object.keys(rules).join(', ')}`;
    assert.equal(unknown('concurrency'), `Part: concurrency: is not an option${all}`);
    assert.equal(unknown('toString'), `Part: toString: is not an option${all}`);
  });

  it('refuses options that are no object', () => {
    for (const options of [undefined, null, 3, 'name']) {
      assert.match(complaint(options as unknown as object), /^Part: options: must be an object/);
    }
  });

  it('never takes a number from a string', () => {
    assert.match(complaint({ name: 'a', limit: '8' }), /got '8'$/);
    for (const rule of [integer(0), number(0), positive()]) assert.equal(rule.holds('1'), false);
  });

  const cases: readonly [string, Rule<unknown>, readonly unknown[], readonly unknown[]][] = [
    ['an integer from 1', integer(1), [1, 2 ** 53 - 1], [0, 1.5, NaN, Infinity, 2 ** 53, 1n]],
    ['an integer from 0 to 7', integer(0, 7), [0, 7], [-1, 8, null]],
    ['a number from 0', number(0), [0, 0.5, Infinity], [-0.1, NaN, null, []]],
    ['a number from 0 to 1', number(0, 1), [0, 1], [1.1, Infinity]],
    ['a number above 0', positive(), [0.001, Infinity], [0, -1, NaN, true]],
    ['a number above 0, up to 5', positive(5), [5], [0, 5.1]],
    ['a string that is not empty', word, ['a'], ['', 1, null]],
    ['true or false', flag, [true, false], [0, 'true', null]],
    ['a function', callback, [() => {}], [{}, 'f', null]],
    ["'a' or 'b'", oneOf('a', 'b'), ['a', 'b'], ['c', '', null]],
    ['1 or 2', oneOf(1, 2), [1, 2], ['1', 3]],
    ['a Map', instance((value) => value instanceof Map, 'a Map'), [new Map()], [{}, null]],
    ['given', anything, [0, '', null, {}], []],
  ];
  for (const [rule, made, right, wrong] of cases) {
    it(`has a rule for ${rule}`, () => {
      assert.equal(made.rule, rule);
      assert.equal(made.isRequired, true);
      for (const value of right) assert.equal(made.holds(value), true, String(value));
      for (const value of wrong) assert.equal(made.holds(value), false, String(value));
    });
  }
});
