import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { PostgresServer } from 'spillway-fixtures/postgres';

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe('the server of a test', () => {
  it('says why it does not start', async () => {
    await assert.rejects(PostgresServer.start({ settings: ['no_such_setting=1'] }), (error) => {
      assert.match(String(error), /ended by exit code 1.*no_such_setting/s);
      return true;
    });
  });

  it('ends with a test that is killed, and leaves no folder', { timeout: 30_000 }, async () => {
    const program = join(import.meta.dirname, 'fixtures', 'mortal-postgres.ts');
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    const test = spawn(process.execPath, [program], { env, stdio: [...stdio] });
    const [line] = await once(test.stdout.setEncoding('utf8'), 'data');
    const { folder } = JSON.parse(line);
    const [first = ''] = readFileSync(join(folder, 'data', 'postmaster.pid'), 'utf8').split('\n');
    const pid = Number(first);
    assert.ok(isAlive(pid));
    test.kill('SIGKILL');
    while (isAlive(pid) || existsSync(folder)) await setTimeout(20);
  });
});
