import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { RedisServer } from 'spillway-fixtures/redis';
import { requires } from 'spillway-fixtures/requires';
import { scratchFolder } from 'spillway-fixtures/scratch';

const root = dirname(import.meta.dirname);

/** The programs of a guide, in their order. */
function programs(name: string): readonly string[] {
  const text = readFileSync(join(root, 'docs', 'guides', `${name}.md`), 'utf8');
  return [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, program]) => program as string);
}

/** A folder from which the packages are found, with these files in it. */
async function folderWith(t: TestContext, files: Readonly<Record<string, string>>) {
  const folder = await scratchFolder('packages/redis');
  t.after(() => folder.remove());
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder.path, name), text);
  return folder.path;
}

async function run(args: readonly string[], store = 'memory:'): Promise<string> {
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const options = { env: { ...env, STORE: store }, timeout: 200_000 };
  const { stdout } = await promisify(execFile)(process.execPath, args, options);
  return stdout;
}

describe('the guides to stores', () => {
  it('have a store of your own that keeps every promise', async (t) => {
    const [store = '', test = ''] = programs('a-store-of-your-own');
    const folder = await folderWith(t, { 'store.ts': store, 'store.test.ts': test });
    const told = await run(['--test', '--test-reporter=tap', join(folder, 'store.test.ts')]);
    assert.match(told, /^# fail 0$/m);
    assert.ok(Number(/^# pass (\d+)$/m.exec(told)?.[1]) > 10, told);
  });

  it('have a program for many machines that runs in memory', async (t) => {
    const [program = ''] = programs('many-machines');
    const folder = await folderWith(t, { 'main.ts': program });
    assert.equal(await run([join(folder, 'main.ts')]), 'called\ncommitted\n');
  });

  it('have the same program on Redis', requires('redis-server'), async (t) => {
    await using server = await RedisServer.start();
    const [program = ''] = programs('many-machines');
    const folder = await folderWith(t, { 'main.ts': program });
    assert.equal(await run([join(folder, 'main.ts')], server.url), 'called\ncommitted\n');
  });
});
