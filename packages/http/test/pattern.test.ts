import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { buildValidator } from 'spillway-http';

const compile = (pattern: string) =>
  buildValidator({})({ schema: { type: 'string', pattern }, httpPart: 'body' });

describe('a pattern in a schema', () => {
  for (const pattern of [
    '^(a)\\1$',
    '^(?<x>a)\\k<x>$',
    '^(?=a)a$',
    '^(?<!a)b$',
    '^a{1,1001}$',
    '(',
  ]) {
    it(`is refused when its route is declared: ${pattern}`, () => {
      assert.throws(() => compile(pattern), /pattern: must be free of lookarounds/);
    });
  }

  const taken: readonly (readonly [string, string, string])[] = [
    ['^[a-z0-9._-]{1,64}$', 'a.b-c', 'A'],
    ['^[^@]+@[^@]+\\.[^@]+$', 'ada@example.org', 'ada'],
    ['^[0-9a-f]{8}-[0-9a-f]{4}$', '0123abcd-89ef', '0123'],
    ['^(\\S{16,1000})?$', '', 'short'],
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

  const slow = [
    '^(a|a)*$',
    '^(a+)+$',
    '^(a*)*b$',
    '^([a-z]+-)*$',
    '^(a?){30}a{30}$',
    `^${'a?'.repeat(40)}${'a'.repeat(40)}$`,
    `^${'a*'.repeat(12)}b$`,
    '^a*a*a*b$',
  ];
  for (const pattern of slow) {
    it(`takes a time that is linear in its text: ${pattern.slice(0, 30)}`, () => {
      const validate = compile(pattern);
      const startedAt = process.cpuUsage();
      for (const length of [28, 1_000, 60_000, 1_000_000]) validate(`${'a'.repeat(length)}!`);
      const { user } = process.cpuUsage(startedAt);
      assert.ok(user < 2_000_000, `${user} us`);
    });
  }
});
