import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { printed } from 'spillway-fixtures/printed';

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

describe('the server of a test', () => {
  it('says why it does not start', async () => {
    await assert.rejects(PostgresServer.start({ settings: ['no_such_setting=1'] }), (error) => {
      assert.match(String(error), /ended by exit code 1.*no_such_setting/s);
      return true;
    });
  });

  it('ends with a test that is killed, and leaves no folder', async () => {
    const program = join(import.meta.dirname, 'fixtures', 'mortal-postgres.ts');
    const { NODE_TEST_CONTEXT, ...env } = process.env;
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    const test = spawn(process.execPath, [program], { env, stdio: [...stdio] });
    const [line] = await printed(test, /^\{.*\}$/);
    const { url, folder } = JSON.parse(line);
    const port = Number(new URL(url).port);
    assert.ok(await isListening(port));
    test.kill('SIGKILL');
    while ((await isListening(port)) || existsSync(folder)) await setTimeout(20);
  });
});
