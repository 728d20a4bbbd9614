import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';

const root = dirname(import.meta.dirname);
const examples = globSync('examples/*.ts', { cwd: root }).sort();

describe('every example', () => {
  it('is found', () => assert.ok(examples.length > 0));

  for (const example of examples) {
    it(`${example} is under 40 lines`, () => {
      const lines = readFileSync(join(root, example), 'utf8').trimEnd().split('\n').length;
      assert.ok(lines < 40, `${lines} lines`);
    });

    it(`${example} runs, says something and complains of nothing`, async () => {
      const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
      const options = { cwd: root, env, timeout: 200_000, killSignal: 'SIGKILL' } as const;
      const { stdout, stderr } = await promisify(execFile)(process.execPath, [example], options);
      assert.notEqual(stdout.trim(), '');
      assert.equal(stderr, '');
    });
  }
});
