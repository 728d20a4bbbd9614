import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const usage = `usage: npm run mutate -- <source file> [--tests <glob>] [--max <n>] [--minutes <n>]
Changes one thing at a time in the file, as its tests see it (the file itself stays as it is),
and runs the tests. A change that no test notices is printed: it survives.
  --tests    test files (default: of the same package, those that name one of its exports,
             else those named after its folder)
  --max      at most so many mutants, evenly spread over the file (default 60)
  --minutes  no mutant is begun after this time (default 15)`;

/** One change of the file. */
interface Mutant {
  readonly line: number;
  readonly before: string;
  readonly after: string;
  readonly text: string;
}

type Outcome = 'killed' | 'survived' | 'timed out';

const root = dirname(import.meta.dirname);
/** Each place in the code, outside of comments and strings, that this matches becomes that. */
const swaps: readonly (readonly [RegExp, string])[] = [
  [/ === /g, ' !== '],
  [/ !== /g, ' === '],
  [/ < /g, ' <= '],
  [/ <= /g, ' < '],
  [/ > /g, ' >= '],
  [/ >= /g, ' > '],
  [/ && /g, ' || '],
  [/ \|\| /g, ' && '],
  [/ \+ /g, ' - '],
  [/ - /g, ' + '],
  [/ \+= /g, ' -= '],
  [/ -= /g, ' += '],
  [/ \* /g, ' / '],
  [/\btrue\b/g, 'false'],
  [/\bfalse\b/g, 'true'],
  [/(?<=[(!]|&& |\|\| |return )!(?=[\w(])/g, ''],
  [/\bif \((?=.*\))/g, 'if (!'],
  [/\bMath\.max\b/g, 'Math.min'],
  [/\bMath\.min\b/g, 'Math.max'],
  [/(?<![\w.])0(?![\w.])/g, '1'],
  [/(?<![\w.])1(?![\w._])/g, '2'],
];
/** A statement on one line that can be left out: a call, an assignment, a guarded way out. */
const statement =
  /^\s+(?:(?:await |void )?this[.#\w?[\]]+.*|(?:await |void )?[\w.?]+\(.*|if \(.*);$/;

/** The text with comments and strings as spaces, so that places in it are the same. */
function codeOnly(text: string): string {
  const blank = (found: string) => found.replace(/[^\n]/g, ' ');
  const apart = /\/\*[\s\S]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|^import [^;]*;/gm;
  return text.replace(apart, blank);
}

function mutantsOf(text: string): Mutant[] {
  const code = codeOnly(text);
  const mutants: Mutant[] = [];
  const add = (from: number, to: number, put: string) => {
    const changed = text.slice(0, from) + put + text.slice(to);
    const line = text.slice(0, from).split('\n').length;
    const shown = (all: string) => (all.split('\n')[line - 1] ?? '').trim();
    mutants.push({ line, before: shown(text), after: shown(changed), text: changed });
  };
  for (const [place, put] of swaps) {
    for (const { index, 0: found } of code.matchAll(place)) {
      const end = put === 'if (!' ? closing(code, index + found.length) : undefined;
      if (end === undefined) add(index, index + found.length, put);
      else add(index, end, `if (!(${text.slice(index + found.length, end)})`);
    }
  }
  let at = 0;
  for (const line of code.split('\n')) {
    if (statement.test(line)) add(at, at + line.length, '');
    at += line.length + 1;
  }
  return mutants.sort((a, b) => a.line - b.line);
}

/** The place after a condition that begins here, before its closing bracket. */
function closing(code: string, from: number): number | undefined {
  let depth = 1;
  for (let at = from; at < code.length; at += 1) {
    if (code[at] === '(') depth += 1;
    if (code[at] === ')') depth -= 1;
    if (depth === 0) return at;
  }
  return undefined;
}

function testsOf(file: string, text: string): string[] {
  const [kind = '', name = ''] = relative(root, file).split('/');
  const all = globSync(`${kind}/${name}/test/**/*.test.ts`, { cwd: root });
  const exported = text.matchAll(/^export (?:abstract )?(?:class|function|const) (\w+)/gm);
  const names = [...exported].map(([, word]) => word).join('|');
  const users = all.filter((path) => {
    return (
      names !== '' && new RegExp(`\\b(${names})\\b`).test(readFileSync(join(root, path), 'utf8'))
    );
  });
  if (users.length > 0) return users;
  const folder = basename(dirname(file).replace(/\/thread$/, ''));
  return all.filter((path) => basename(path).startsWith(folder));
}

/** Runs the tests with this text in place of the file's. */
function runTests(file: string, place: string, tests: readonly string[], msMax: number) {
  const hook = pathToFileURL(join(import.meta.dirname, 'mutant-hook.ts')).href;
  const env = { ...process.env, MUTANT_FILE: file, MUTANT_TEXT: place };
  const options = `${process.env.NODE_OPTIONS ?? ''} --import=${hook}`;
  const how = ['--test', '--test-force-exit', '--test-isolation=none'];
  const child = spawn(process.execPath, [...how, ...tests], {
    cwd: root,
    env: { ...env, NODE_OPTIONS: options },
    stdio: 'ignore',
    detached: true,
  });
  return new Promise<Outcome>((done) => {
    const late = setTimeout(() => {
      // The tests and all that they have started.
      process.kill(-(child.pid as number), 'SIGKILL');
      done('timed out');
    }, msMax);
    child.once('exit', (code) => {
      clearTimeout(late);
      done(code === 0 ? 'survived' : 'killed');
    });
  });
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tests: { type: 'string' },
    max: { type: 'string', default: '60' },
    minutes: { type: 'string', default: '15' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help || positionals.length !== 1) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}
const file = resolve(positionals[0] ?? '');
const text = readFileSync(file, 'utf8');
const tests = values.tests ? globSync(values.tests, { cwd: root }) : testsOf(file, text);
if (tests.length === 0) {
  console.error('No test file is named so.');
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), 'spillway-mutants-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const place = join(folder, basename(file));
writeFileSync(place, text);
console.log(`tests: ${tests.join(' ')}`);
const begun = performance.now();
if ((await runTests(file, place, tests, 600_000)) !== 'survived') {
  console.error('The tests fail without any change.');
  process.exit(1);
}
const usualMs = performance.now() - begun;
const all = mutantsOf(text);
const step = Math.max(1, all.length / Number(values.max));
const chosen = all.filter((_, at) => Math.floor(at / step) !== Math.floor((at - 1) / step));
console.log(`${chosen.length} of ${all.length} mutants, ${Math.round(usualMs)} ms each`);
const counts = { killed: 0, survived: 0, 'timed out': 0 };
for (const mutant of chosen) {
  if (performance.now() - begun > Number(values.minutes) * 60_000) {
    console.log(`Out of time at line ${mutant.line}.`);
    break;
  }
  writeFileSync(place, mutant.text);
  const outcome = await runTests(file, place, tests, 5_000 + 4 * usualMs);
  counts[outcome] += 1;
  if (outcome !== 'survived') continue;
  console.log(`survived ${relative(root, file)}:${mutant.line}`);
  console.log(`  - ${mutant.before}\n  + ${mutant.after || '(left out)'}`);
}
console.log(
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', '),
);
process.exitCode = counts.survived > 0 ? 1 : 0;
