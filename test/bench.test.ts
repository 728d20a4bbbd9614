import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';

const root = dirname(import.meta.dirname);

function bench(...args: readonly string[]) {
  const options = { cwd: root, encoding: 'utf8', timeout: 200_000 } as const;
  return spawnSync(process.execPath, ['bench/run.ts', ...args], options);
}

describe('the bench command', () => {
  it('explains itself and names every bench', () => {
    const { status, stdout, stderr } = bench('--help');
    assert.equal(status, 0);
    assert.match(stdout, /one of: pool, gate, bucket, store/);
    assert.equal(stderr, '');
  });

  for (const args of [
    ['nothing'],
    ['toString'],
    [],
    ['pool', 'gate'],
    ['pool', '--fast'],
    ['pool', '--only-kept'],
    ['pool', '--only', 'no such run'],
    ['pool', '--only', 'no-op', '--keep', 'results'],
  ]) {
    it(`refuses "${args.join(' ')}" with the list of names`, () => {
      const { status, stdout, stderr } = bench(...args);
      assert.equal(status, 2);
      assert.equal(stdout, '');
      assert.match(stderr, /one of: pool, gate, bucket, store/);
    });
  }

  it('writes the page from kept benches, and names the others', () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), 'spillway-bench-'));
    const row = {
      name: 'gate: enter: CPU',
      ours: 160,
      peer: 320,
      ratio: 2,
      unit: 'ns',
      peerName: 'p-limit',
      oursRange: [150, 170],
      peerRange: [320, 320],
    };
    const rows = [
      { ...row, target: 'at most 170 ns', met: true },
      { ...row, target: 'at most 99 ns', met: false },
      { ...row, peerName: 'idle', ratio: Infinity, target: null, met: null },
    ];
    const lines = rows.map((each) => JSON.stringify(each)).join('\n');
    writeFileSync(join(folder.path, 'gate.jsonl'), lines);
    writeFileSync(join(folder.path, 'pool.jsonl'), '');

    const { status, stdout } = bench('all', '--keep', folder.path, '--only-kept', '--markdown');

    assert.equal(status, 0);
    assert.match(stdout, /^- Machine: \d+ cores .*Node 2\d\.\d+\.\d+\.$/m);
    assert.match(stdout, /^- Not measured: pool, bucket, store, .*overload\.$/m);
    assert.match(
      stdout,
      /^- Targets: 1 met, 1 missed\.\n {2}- gate: enter: CPU: at most 99 ns, ours 160/m,
    );
    const line =
      '| enter: CPU (ns) | 160.0 (150.0 to 170.0) | p-limit 320.0, 2.00x; idle 320.0 ' +
      '| at most 170 ns: met; at most 99 ns: **missed** |\n';
    assert.ok(stdout.includes(line), stdout);
    assert.deepEqual(readdirSync(folder.path), ['gate.jsonl', 'pool.jsonl']);
  });

  it('keeps what it has measured, and does not measure it again', () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), 'spillway-bench-'));
    const results = join(folder.path, 'results');
    const words = ['document', '--quick', '--keep', results, '--json'];
    const first = bench(...words);
    assert.equal(first.status, 0, first.stderr);
    const names = first.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).name);
    assert.deepEqual(names, [
      'document: transactions, 100 callers, 1 KiB: rate',
      'document: lock: rate',
    ]);
    assert.deepEqual(readdirSync(results), ['document.jsonl']);
    assert.equal(readFileSync(join(results, 'document.jsonl'), 'utf8'), first.stdout);
    assert.equal(bench(...words).stdout, first.stdout);
  });

  it('has contenders that can be run by hand, for a profile', () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), 'spillway-bench-'));
    const profile = ['--cpu-prof', `--cpu-prof-dir=${folder.path}`];
    const words = [...profile, 'bench/contestant.ts', 'document', 'spillway'];
    const options = { cwd: root, encoding: 'utf8', timeout: 200_000 } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, words, options);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^lock \{ rate: \d+/m);
    assert.equal(readdirSync(folder.path).filter((name) => name.endsWith('.cpuprofile')).length, 1);
  });
});
