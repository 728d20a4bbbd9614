import { spawn } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { seededRandom } from 'spillway';

const usage = `usage: npm run mutate -- <source file> [--tests <glob>] [--max <n>] [--minutes <n>]
       [--jobs <n>] [--lines <from>-<to>] [--seed <n>] [--seconds <n>]
Makes one small change in the file at a time (only its tests see it, the file itself stays as it is)
and runs the test files that execute this place until a test fails: first those that are quick, or
have noticed the most changes. A change that no test notices survives and is printed.
  --tests    test files (default: of the same package, those that name one of its exports,
             else those named after its folder)
  --max      at most this many mutants, evenly spread over the file (default 60)
  --seed     the sample that --max takes: another number gives other mutants (default 0)
  --seconds  test files that take longer without a change are left out (default 300)
  --minutes  no mutant is begun after this time (default 15)
  --jobs     mutants that are tried at once (default 1)
  --lines    only mutants of these lines (default: all)`;

/** One change of the file. */
interface Mutant {
  /** Its place in the text. */
  readonly at: number;
  readonly line: number;
  readonly before: string;
  readonly after: string;
  readonly text: string;
}

type Outcome = 'killed' | 'survived' | 'timed out';

const root = dirname(import.meta.dirname);
/** Replacements: each match in the code, outside of comments and strings, makes a mutant. */
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

/** The text with comments and strings replaced by spaces, so that offsets stay the same. */
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
    mutants.push({ at: from, line, before: shown(text), after: shown(changed), text: changed });
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
    const indent = line.search(/\S/);
    if (statement.test(line)) add(at + indent, at + line.length, '');
    at += line.length + 1;
  }
  return mutants.sort((a, b) => a.line - b.line);
}

/** The offset of the closing bracket of a condition that begins here. */
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

/** A test file, and the parts of the source file that it executes. */
interface TestFile {
  readonly path: string;
  readonly ms: number;
  /** Mutants that it was run with, and those that it noticed. */
  tried: number;
  noticed: number;
  readonly reaches: (at: number) => boolean;
}

interface Run {
  readonly file: string;
  /** Path of the text that stands in for the file. */
  readonly place: string;
  readonly tests: readonly string[];
  readonly msMax: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs the tests until one fails. */
function runTests({ file, place, tests, msMax, env = {} }: Run): Promise<Outcome> {
  const hook = pathToFileURL(join(import.meta.dirname, 'mutant-hook.ts')).href;
  const options = `${process.env.NODE_OPTIONS ?? ''} --import=${hook}`;
  const how = ['--test', '--test-force-exit', '--test-isolation=none', '--test-reporter=tap'];
  const child = spawn(process.execPath, [...how, ...tests], {
    cwd: root,
    env: {
      ...process.env,
      ...env,
      MUTANT_FILE: file,
      MUTANT_TEXT: place,
      NODE_OPTIONS: options,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const { promise, resolve: end } = Promise.withResolvers<Outcome>();
  const late = setTimeout(() => end('timed out'), msMax);
  child.once('exit', (code) => end(code === 0 ? 'survived' : 'killed'));
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (/^ *not ok /m.test(text)) end('killed');
  });
  return promise.finally(() => {
    clearTimeout(late);
    endGroup(child.pid);
  });
}

/** Ends the tests and all that they have started. */
function endGroup(pid: number | undefined): void {
  try {
    process.kill(-(pid as number), 'SIGKILL');
  } catch {
    // All of them have ended.
  }
}

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly ranges: readonly {
        readonly startOffset: number;
        readonly endOffset: number;
        readonly count: number;
      }[];
    }[];
  }[];
}

/** Runs one test file with the file as it is; undefined if it fails, or does not load the file. */
async function tryTests(file: string, place: string, path: string): Promise<TestFile | undefined> {
  const covered = mkdtempSync(join(folder, 'coverage-'));
  const begun = performance.now();
  const env = { NODE_V8_COVERAGE: covered };
  const msMax = Number(values.seconds) * 1_000;
  const outcome = await runTests({ file, place, tests: [path], msMax, env });
  if (outcome !== 'survived') {
    const what = outcome === 'killed' ? 'fails without any change' : 'takes too long';
    console.error(`${path} ${what}: it is left out.`);
    return undefined;
  }
  const ms = performance.now() - begun;
  const url = pathToFileURL(file).href;
  const all = globSync('*.json', { cwd: covered }).map((name) => {
    return JSON.parse(readFileSync(join(covered, name), 'utf8')) as Coverage;
  });
  // Type stripping leaves spaces, so offsets of the coverage are offsets in the file.
  const scripts = all.flatMap(({ result }) => result.filter((script) => script.url === url));
  if (scripts.length === 0) return undefined;
  const reaches = (at: number) => {
    return scripts.some(({ functions }) => {
      const ranges = functions.flatMap((each) => each.ranges);
      const around = ranges.filter(({ startOffset, endOffset }) => {
        return startOffset <= at && at < endOffset;
      });
      const size = (range: (typeof ranges)[number]) => range.endOffset - range.startOffset;
      return around.reduce((a, b) => (size(b) <= size(a) ? b : a)).count > 0;
    });
  };
  return { path, ms, tried: 0, noticed: 0, reaches };
}

/** The time that a test file is likely to take for each mutant that it notices. */
function msPerNotice({ ms, tried, noticed }: TestFile): number {
  return (ms * (tried + 2)) / (noticed + 1);
}

/** Runs the test files that reach the mutant, the likeliest first, until one of them fails. */
async function tryMutant(file: string, place: string, mutant: Mutant): Promise<Outcome> {
  writeFileSync(place, mutant.text);
  const able = known.filter(({ reaches }) => reaches(mutant.at));
  for (const test of able.sort((a, b) => msPerNotice(a) - msPerNotice(b))) {
    const outcome = await runTests({ file, place, tests: [test.path], msMax: 2_000 + 3 * test.ms });
    test.tried += 1;
    if (outcome === 'survived') continue;
    test.noticed += 1;
    return outcome;
  }
  return 'survived';
}

/** Takes mutants from the list until it is empty or the time is over. */
async function work(place: string, mutants: Iterator<Mutant>): Promise<void> {
  for (let next = mutants.next(); !next.done; next = mutants.next()) {
    const mutant = next.value;
    if (performance.now() - begun > Number(values.minutes) * 60_000) {
      console.log(`Time is up at line ${mutant.line}.`);
      return;
    }
    const outcome = await tryMutant(file, place, mutant);
    counts[outcome] += 1;
    if (outcome !== 'survived') continue;
    const isReached = known.some(({ reaches }) => reaches(mutant.at));
    const where = `${relative(root, file)}:${mutant.line}`;
    console.log(`survived ${where}${isReached ? '' : ' (no test executes it)'}`);
    console.log(`  - ${mutant.before}\n  + ${mutant.after || '(left out)'}`);
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    tests: { type: 'string' },
    max: { type: 'string', default: '60' },
    minutes: { type: 'string', default: '15' },
    jobs: { type: 'string', default: '1' },
    lines: { type: 'string', default: '1-' },
    seed: { type: 'string', default: '0' },
    seconds: { type: 'string', default: '300' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help || positionals.length !== 1) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}
const file = resolve(positionals[0] ?? '');
if (!existsSync(file)) {
  console.error(`There is no file ${file}.`);
  process.exit(2);
}
const text = readFileSync(file, 'utf8');
const tests = values.tests ? globSync(values.tests, { cwd: root }) : testsOf(file, text);
if (tests.length === 0) {
  console.error('No test file is named so.');
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), 'spillway-mutants-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const begun = performance.now();
const places = Array.from({ length: Number(values.jobs) }, (_, at) => {
  const place = join(folder, `${at}-${basename(file)}`);
  writeFileSync(place, text);
  return place;
});
const known: TestFile[] = [];
for (const path of tests) {
  const tried = await tryTests(file, places[0] as string, path);
  if (tried !== undefined) known.push(tried);
}
if (known.length === 0) {
  console.error('No test file that passes runs this file.');
  process.exit(1);
}
known.sort((a, b) => a.ms - b.ms);
for (const { path, ms } of known) console.log(`${path}: ${Math.round(ms)} ms`);
const [from, to] = values.lines.split('-').map(Number);
const all = mutantsOf(text).filter(({ line }) => line >= (from ?? 1) && line <= (to || Infinity));
const step = Math.max(1, all.length / Number(values.max));
const random = seededRandom(Number(values.seed));
const chosen = Array.from({ length: Math.min(all.length, Number(values.max)) }, (_, at) => {
  return all[Math.floor((at + random()) * step)] as Mutant;
});
console.log(`${chosen.length} of ${all.length} mutants`);
const counts = { killed: 0, survived: 0, 'timed out': 0 };
const waiting = chosen.values();
await Promise.all(places.map((place) => work(place, waiting)));
console.log(
  Object.entries(counts)
    .map(([name, count]) => `${count} ${name}`)
    .join(', '),
);
process.exitCode = counts.survived > 0 ? 1 : 0;
