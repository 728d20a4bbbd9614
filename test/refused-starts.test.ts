import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { on, once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { Listener } from 'spillway/connect';

const root = dirname(import.meta.dirname);
const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;

function start(app: string, words: readonly string[]): ChildProcess {
  const program = join(root, 'apps', app, 'bin', `${app}.js`);
  const stdio = ['ignore', 'ignore', 'pipe', 'ipc'] as ['ignore', 'ignore', 'pipe', 'ipc'];
  return spawn(process.execPath, [program, ...words], { env, stdio });
}

/** Exit code and complaint of a program that must not start. */
async function refused(app: string, words: readonly string[]) {
  const child = start(app, words);
  const exited = once(child, 'exit');
  const said = await text(child.stderr as NodeJS.ReadableStream);
  const [code] = await exited;
  return { code, said };
}

const commands: Readonly<Record<string, readonly string[]>> = {
  fleet: ['serve', '--github', 'false'],
  ingest: ['follow', '--simulated'],
  console: ['serve'],
};

/** The complaint of a second start; fleet's second instance stands by instead. */
const complaints: Readonly<Record<string, RegExp>> = {
  ingest: /^ingest: ingest runs already with its data in \S+; see --data\n$/,
  console: /^console: a console runs already with --data .*npx console open.*\n$/,
};

// The ranker has tests of the same beside its commands: it takes long to start.
describe('a start that is refused ends with one sentence', () => {
  for (const [app, command] of Object.entries(commands)) {
    it(`${app}: a port that is taken, a folder that cannot be made`, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-refused-'));
      await using taken = new Listener(createServer());
      await taken.start();
      const { port } = new URL(taken.url);
      const data = join(folder.path, 'data');
      const second = await refused(app, [...command, '--data', data, '--port', port]);
      assert.equal(second.code, 1);
      const why = `${app}: port: 127.0.0.1:${port} is in use; choose another with --port\n`;
      assert.equal(second.said, why);
      assert.equal(existsSync(data), false, 'it leaves no folder');
      const file = join(folder.path, 'file');
      await writeFile(file, '');
      const below = await refused(app, [...command, '--data', join(file, 'data'), '--port', '0']);
      assert.equal(below.code, 1);
      assert.match(below.said, new RegExp(`^${app}: .*ENOTDIR: not a directory, .*\\n$`));
    });
  }

  for (const app of ['fleet', 'console']) {
    it(`${app}: a folder where nobody may make one`, async () => {
      const words = [...(commands[app] ?? []), '--data', '/proc/spillway/data', '--port', '0'];
      const { code, said } = await refused(app, words);
      assert.equal(code, 1);
      assert.match(said, new RegExp(`^${app}: ENOENT: .*, mkdir '/proc/spillway'\\n$`));
    });
  }

  for (const [app, complaint] of Object.entries(complaints)) {
    it(`${app}: a second start with the same data`, async (t) => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-refused-'));
      const words = [...(commands[app] ?? []), '--data', folder.path, '--port', '0'];
      const first = start(app, words);
      t.after(() => first.kill('SIGKILL'));
      first.stderr?.resume();
      for await (const [message] of on(first, 'message', { close: ['exit'] })) {
        if (Object(message).ready === true) break;
      }
      const { code, said } = await refused(app, words);
      assert.equal(code, 1);
      assert.match(said, complaint);
      const exited = once(first, 'exit');
      first.kill('SIGKILL');
      await exited;
    });
  }
});
