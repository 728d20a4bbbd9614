import { type ChildProcess, fork, spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const usage = `usage: node scripts/test.ts <kind> [test files]
  whole   all tests
  quick   without files that start other programs, or that say "// Slow:" on their first line
  loaded  all tests beside busy programs that keep the load average between 10 and 20
Without files: all of the kind.`;

const root = dirname(import.meta.dirname);
const patterns = ['{packages,apps}/*/test/**/*.test.ts', 'test/*.test.ts'];
/** Modules by which a test starts other programs: processes, a browser, a database server. */
const programs =
  /from '(node:child_process|playwright-core|spillway-fixtures\/(browser|postgres|redis))'/;
/** Number of busy programs, for a load average of 10 to 20. */
const spinners = 12;

/** True if a test file begins with a reason for it, or if it or a fixture of it starts programs. */
function isSlow(test: string): boolean {
  const files = new Set([test]);
  // Visits the fixtures that are added meanwhile, too.
  for (const file of files) {
    const text = readFileSync(file, 'utf8');
    if (text.startsWith('// Slow: ') || programs.test(text)) return true;
    for (const [, name = ''] of text.matchAll(/^(?:import|\}) .*from '(\.[^']+)';$/gm)) {
      // The code under test may start programs that a test of it does not need.
      if (!/\/(src|scripts)\//.test(name)) files.add(join(dirname(file), name));
    }
  }
  return false;
}

function files(kind: string): readonly string[] {
  const all = globSync(patterns, { cwd: root }).sort();
  return kind === 'quick' ? all.filter((path) => !isSlow(join(root, path))) : all;
}

function load(): Disposable {
  const program = join(import.meta.dirname, 'spin.ts');
  const children: ChildProcess[] = [];
  for (let i = 0; i < spinners; i += 1) children.push(fork(program, { stdio: 'ignore' }));
  return {
    [Symbol.dispose]: () => {
      for (const child of children) child.kill('SIGKILL');
    },
  };
}

async function run(kind: string, chosen: readonly string[]): Promise<number> {
  // Beside 12 busy programs a test gets a seventh of the CPU time that it has alone.
  const timeoutMs = kind === 'loaded' ? 900_000 : 300_000;
  // Many tests wait more than they work: on two cores three files at once end sooner than two.
  const flags = ['--test', '--test-concurrency=3', `--test-timeout=${timeoutMs}`];
  const tests = chosen.length > 0 ? chosen : files(kind);
  const words = [...process.execArgv, ...flags, ...tests];
  // Compiled programs and the files of a database server are made once for all tests. The server
  // runs as another user, who must get in.
  await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-test-'));
  await chmod(folder.path, 0o755);
  const made = {
    SPILLWAY_TEST_FOLDER: folder.path,
    NODE_COMPILE_CACHE: join(folder.path, 'compiled'),
  };
  const env = { ...process.env, ...made };
  const child = spawn(process.execPath, words, { cwd: root, env, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  return await new Promise((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1));
  });
}

const [kind = '', ...chosen] = process.argv.slice(2);
if (!['whole', 'quick', 'loaded'].includes(kind)) {
  console.error(usage);
  process.exit(2);
}
using _load = kind === 'loaded' ? load() : undefined;
process.exitCode = await run(kind, chosen);
