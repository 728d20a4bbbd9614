import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { uniqueKey } from './fixtures/fleet-scene.ts';
import { ask, FleetSite, type TaskBody, temporaryFolder } from './fixtures/fleet-site.ts';

const rounds = 2;
const program = join(import.meta.dirname, 'fixtures', 'fleet-child.ts');

async function start(database: string): Promise<{ child: ChildProcess; url: string }> {
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, [program, database], { env, stdio: [...stdio] });
  const failed = once(child, 'exit').then(() => assert.fail('the server ended'));
  const line = once(createInterface(child.stdout as NodeJS.ReadableStream), 'line');
  const [url] = (await Promise.race([line, failed])) as [string];
  failed.catch(() => {});
  return { child, url };
}

describe('a server that is killed while games arrive', () => {
  it('has all games that it acknowledged, and gives none that are half there', async () => {
    await using stack = new AsyncDisposableStack();
    const database = `sqlite:${join(await temporaryFolder(stack), 'fleet.db')}`;
    const tasks: TaskBody[] = [];
    /** By task: what was sent last, and what was acknowledged last. */
    const sent = new Map<number, string>();
    const stored = new Map<number, string>();
    {
      await using site = await FleetSite.open({ database });
      await site.run();
      for (let at = 0; at < 8; at += 1) {
        tasks.push(await site.task({ unique_key: uniqueKey(at), concurrency: 1 }));
      }
    }
    const send = async (url: string, task: TaskBody) => {
      try {
        for (;;) {
          const zip = gzipSync(randomBytes(20_000));
          const digest = createHash('sha256').update(zip).digest('hex');
          sent.set(task.task_id, digest);
          const body = { ...task, message: '', pgn: zip.toString('base64') };
          const { status } = await ask(`${url}/api/upload_pgn`, JSON.stringify(body));
          assert.equal(status, 200);
          stored.set(task.task_id, digest);
        }
      } catch (error) {
        assert.notEqual(Object(error).code, 'ERR_ASSERTION', String(error));
      }
    };
    for (let round = 0; round < rounds; round += 1) {
      stored.clear();
      const { child, url } = await start(database);
      const all = tasks.map((task) => send(url, task));
      while (stored.size < tasks.length) await new Promise((resolve) => setImmediate(resolve));
      child.kill('SIGKILL');
      await Promise.all([...all, once(child, 'exit')]);
    }
    await using site = await FleetSite.open({ database, folder: `${database.slice(7)}-files` });
    for (const { run_id, task_id } of tasks) {
      const pgn = await site.fleet.files.pgns.find(run_id, task_id);
      const known = [sent.get(task_id), stored.get(task_id)];
      assert.ok(known.includes(pgn?.sha256 ?? ''), `task ${task_id} has other games`);
    }
    const { run_id } = tasks[0] as TaskBody;
    const answer = await fetch(`${site.fleet.server.url}/api/run_pgns/${run_id}.pgn.gz`);
    const whole = Buffer.from(await answer.arrayBuffer());
    assert.equal(whole.length, Number(answer.headers.get('content-length')));
  });
});
