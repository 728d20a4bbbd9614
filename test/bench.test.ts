import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { describe, it } from 'node:test';

const root = dirname(import.meta.dirname);

function bench(...args: readonly string[]) {
  const options = { cwd: root, encoding: 'utf8', timeout: 10_000 } as const;
  return spawnSync(process.execPath, ['bench/run.ts', ...args], options);
}

describe('the bench command', () => {
  it('explains itself and names every bench', () => {
    const { status, stdout, stderr } = bench('--help');
    assert.equal(status, 0);
    assert.match(stdout, /one of: pool, gate, bucket, store/);
    assert.equal(stderr, '');
  });

  for (const args of [['nothing'], ['toString'], [], ['pool', 'gate'], ['pool', '--fast']]) {
    it(`refuses "${args.join(' ')}" with the list of names`, () => {
      const { status, stdout, stderr } = bench(...args);
      assert.equal(status, 2);
      assert.equal(stdout, '');
      assert.match(stderr, /one of: pool, gate, bucket, store/);
    });
  }
});
