import { type ChildProcess, fork, spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const usage = `usage: node scripts/test.ts <kind> [test files]
  whole   all tests
  quick   without those that kill processes, open a browser or a database server, or take long
  loaded  all tests beside programs that keep the load of the machine between 10 and 20
Without files: all of the kind.`;

const root = dirname(import.meta.dirname);
const patterns = ['{packages,apps}/*/test/**/*.test.ts', 'test/*.test.ts'];
/** A test file that starts a browser, a database server, or processes that are killed. */
const heavy =
  /spillway-fixtures\/(browser|postgres|redis)|postgres\.ts'|\bSIGKILL\b|\bfork\(|\bspawn/;
/** Names of test files that start whole services or many rounds. */
const long = new RegExp(
  [
    'access|bad-input|bench|books|browser|burst|commands|corpus|crash|crowd|day|docs|embedder',
    'examples|exchange|faults|feed|follow|gradient|guide|harvest|hostile|jumps|kill|lane-change',
    'lane-overload|large|live|never-worse|operator|pack|pages|pgn|pool-|primary|processes|promise',
    'random|ranker|read|receive|served|service|shared-gate|source|start|storage|terminal|train',
    'transactions',
  ].join('|'),
);
/** Names of tests that try thousands of orders of events, or a long time of a whole fleet. */
const many = '/whatever happens|in any schedule|reconnecting within/';
/** Number of programs that compute without end, for a load of 10 to 20. */
const spinners = 12;

function files(kind: string): readonly string[] {
  const all = globSync(patterns, { cwd: root }).sort();
  if (kind !== 'quick') return all;
  return all.filter((path) => {
    const name = path.split('/').at(-1) ?? '';
    return !long.test(name) && !heavy.test(readFileSync(join(root, path), 'utf8'));
  });
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
  // Beside a load of 12 a test has a seventh of the time that it has alone.
  const timeoutMs = kind === 'loaded' ? 900_000 : 300_000;
  // Many tests wait more than they work: on two cores three files at once end sooner than two.
  const flags = ['--test', '--test-concurrency=3', `--test-timeout=${timeoutMs}`];
  if (kind === 'quick') flags.push(`--test-skip-pattern=${many}`);
  const tests = chosen.length > 0 ? chosen : files(kind);
  const words = [...process.execArgv, ...flags, ...tests];
  // What many tests need is made once: compiled programs, and the files of a database server, which
  // runs as another user.
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
