import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { buildValidator } from 'spillway-http';

const compile = (pattern: string) =>
  buildValidator({})({ schema: { type: 'string', pattern }, httpPart: 'body' });

describe('a pattern in a schema', () => {
  const refused = [
    '^(a|a)*$',
    '^(a+)+$',
    '^(a*)*b$',
    '^([a-z]+-)*$',
    '^((a|b)c)*$',
    '^(?:a|ab)(?:c|bcd)(?:d*)*$',
    '^(a?){30}a{30}$',
    `^${'a?'.repeat(40)}${'a'.repeat(40)}$`,
    `^${'a*'.repeat(12)}b$`,
    '^(a)\\1$',
    '^(?<x>a)\\k<x>$',
  ];
  for (const pattern of refused) {
    it(`is refused when its route is declared: ${pattern.slice(0, 30)}`, () => {
      assert.throws(() => compile(pattern), /pattern: must be free of choices and repetitions/);
    });
  }

  const taken: readonly (readonly [string, string, string])[] = [
    ['^[a-z0-9._-]{1,64}$', 'a.b-c', 'A'],
    ['^[^@]+@[^@]+\\.[^@]+$', 'ada@example.org', 'ada'],
    ['^[0-9a-f]{8}-[0-9a-f]{4}$', '0123abcd-89ef', '0123'],
    ['^(\\S{16,1024})?$', '', 'short'],
    ['^(foo|bar)?-(x|y)$', 'foo-x', 'baz-x'],
    ['^(ab)*$', 'abab', 'aba'],
    ['^[(|)*]+$', '(|)*', 'a'],
    ['^\\(a\\|b\\)+$', '(a|b)))', 'ab'],
  ];
  for (const [pattern, good, bad] of taken) {
    it(`is taken: ${pattern}`, () => {
      const validate = compile(pattern);
      assert.deepEqual([validate(good), validate(bad)], [true, false]);
    });
  }

  it('is never tried on a text that it could take long for', () => {
    for (const pattern of ['^a*a*a*b$', '^a*a*b$', '^a?a?a?a?a?a*a*$', '^(a|b|c)a*a*a*d$']) {
      const validate = compile(pattern);
      const startedAt = process.cpuUsage();
      for (let length = 100; length <= 1_100; length += 100) validate('a'.repeat(length));
      const { user } = process.cpuUsage(startedAt);
      assert.ok(user < 5_000_000, `${pattern}: ${user} us`);
    }
  });
});
