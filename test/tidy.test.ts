import assert from 'node:assert/strict';
import { globSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { describe, it } from 'node:test';
import { type Fault, SpillwayError } from 'spillway';
import { errorCodes } from 'spillway/internal';
import { httpError, httpErrorCodes } from 'spillway-http';

/** A rule that each file must keep. */
interface Rule {
  readonly name: string;
  readonly applies: RegExp;
  /** The part of the file that breaks the rule, or undefined. */
  readonly complaint: (text: string, path: string) => string | undefined;
  /** A path and a text that break the rule: a rule that finds nothing there is itself broken. */
  readonly broken: readonly [path: string, text: string];
}

interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const root = dirname(import.meta.dirname);
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const files = globSync('**/*', {
  cwd: root,
  exclude: (path) => /(^|\/)(node_modules|dist|scratch|\.git)$/.test(path),
})
  .concat(globSync('.ci/*', { cwd: root }))
  .filter((path) => statSync(join(root, path)).isFile())
  .filter((path) => /\.(ts|js|mjs|json|md|sql|css|html)$|^\.ci\//.test(path));

/** Each workspace folder, with what its package.json says; the root is the empty string. */
const manifests = new Map<string, Manifest>(
  files
    .filter((path) => basename(path) === 'package.json')
    .map((path) => [path === 'package.json' ? '' : dirname(path), JSON.parse(read(path))]),
);

/** Files that break a rule for a good reason: rule, then path, then why. */
const exceptions: Readonly<Record<string, Readonly<Record<string, string>>>> = {};

const source = /^(packages|apps)\/[^/]+\/src\/.*\.ts$/;
const question = 'What|Who|Whose|Whoever|Whichever|Which|How|Where|When|Whether|Why';
const subjectless = new RegExp(`/\\*\\*\\s+(\\* )?(${question}|Those|So many|So much)\\b.*`);
const anyTs = /\.ts$/;
const anyFile = /./;

const time =
  /\b(Date\.now|performance\.now|hrtime|setTimeout|setInterval)\b|Signal\.timeout\b|new Date\(\)/;
const imported =
  /^(?:import|export)\b[^'=;]*\bfrom '([^'\n]+)'|^import '([^'\n]+)'|\bimport\('([^'\n]+)'\)/gm;

const rules: readonly Rule[] = [
  {
    name: 'has at most 400 lines a file',
    applies: anyTs,
    complaint: (text) => {
      const lines = text.trimEnd().split('\n').length;
      return lines > 400 ? `${lines} lines` : undefined;
    },
    broken: ['bench/long.ts', '\n'.repeat(400).concat('end')],
  },
  {
    name: 'has at most 100 characters a line',
    applies: anyTs,
    complaint: (text) => {
      const wide = text.split('\n').flatMap((line, at) => ([...line].length > 100 ? at + 1 : []));
      return wide.length > 0 ? `line ${wide.join(', ')}` : undefined;
    },
    broken: ['scripts/wide.ts', `// ${'x'.repeat(98)}`],
  },
  {
    name: 'takes time from clock.ts only',
    applies: /^packages\/[^/]+\/src\/(?!base\/clock\.ts$).*\.ts$/,
    complaint: (text) => time.exec(withoutComments(text))?.[0],
    broken: ['packages/spillway/src/gate.ts', 'const timer = setTimeout(wake, 10);'],
  },
  {
    name: 'turns the event loop in turn-budget.ts only',
    applies: /^packages\/[^/]+\/src\/(?!wait\/turn-budget\.ts$).*\.ts$/,
    complaint: (text) => /\bsetImmediate\b/.exec(withoutComments(text))?.[0],
    broken: ['packages/spillway/src/gate.ts', 'setImmediate(wake);'],
  },
  {
    name: 'takes chance from random.ts only',
    applies: /^packages\/[^/]+\/src\/(?!base\/random\.ts$).*\.ts$/,
    complaint: (text) => /\bMath\.random\b/.exec(withoutComments(text))?.[0],
    broken: ['packages/spillway/src/gate.ts', 'const jitter = Math.random();'],
  },
  {
    name: 'imports only its own package and what it declares, in the allowed directions',
    applies: anyTs,
    complaint: (text, path) => imports(text).find((name) => !mayImport(path, name)),
    broken: ['packages/spillway/src/gate.ts', "import { Kysely } from 'kysely';"],
  },
  {
    name: 'imports only rooms of lower layers, as docs/architecture.md has them',
    applies: /^packages\/(spillway|http)\/src\/[^/]+\/.*\.ts$/,
    complaint: (text, path) => imports(text).find((name) => !mayImportRoom(path, name)),
    broken: ['packages/spillway/src/wait/ring.ts', "import { Lane } from '../lane/lane.ts';"],
  },
  {
    name: 'exports by name: no default export',
    applies: anyTs,
    complaint: (text) => /^export default\b.*|^export \{[^}]*\bas default\b/m.exec(text)?.[0],
    broken: ['packages/spillway/src/gate.ts', 'export default class Gate {}'],
  },
  {
    name: 'exports by name: nothing wholesale',
    applies: anyTs,
    complaint: (text) => /^export \*.*/m.exec(text)?.[0],
    broken: ['packages/spillway/src/index.ts', "export * from './gate.ts';"],
  },
  {
    name: 'names files by what they hold',
    applies: anyFile,
    complaint: (_text, path) =>
      /(^|[/-])(utils?|helpers?|common|types|interfaces|manager)\.\w+$/.exec(path)?.[0],
    broken: ['packages/spillway/src/string-utils.ts', ''],
  },
  {
    name: 'begins a doc comment with the noun or the verb that it is about',
    applies: anyTs,
    complaint: (text) => subjectless.exec(text)?.[0],
    broken: [
      'packages/spillway/src/wait/ring.ts',
      ['/**', 'What can stand in a ring. */'].join(' '),
    ],
  },
  {
    name: 'leaves nothing for later',
    applies: anyFile,
    complaint: (text) => /\b(TO[D]O|FIX[M]E)\b/.exec(text)?.[0],
    broken: ['docs/guide.md', ['TO', 'DO'].join('')],
  },
  {
    name: 'knows no machine: no paths of one',
    applies: anyFile,
    complaint: (text) => /(?<![\w.}])\/(work|root|home)\/.*/.exec(text)?.[0],
    broken: ['docs/guide.md', `see ${['', 'home', 'someone'].join('/')}`],
  },
  {
    name: 'knows no registry: the lock file has no download addresses',
    applies: /(^|\/)package-lock\.json$/,
    complaint: (text) => /"resolved": "http.*/.exec(text)?.[0],
    broken: ['package-lock.json', '"resolved": "https://registry.npmjs.org/x/-/x-1.0.0.tgz"'],
  },
  {
    name: 'keeps test code out of what is published',
    applies: source,
    complaint: (_text, path) => /\.(test|bench)\.ts$/.exec(path)?.[0],
    broken: ['packages/spillway/src/gate.test.ts', ''],
  },
];

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*/g, '');
}

function imports(text: string): string[] {
  const found = withoutComments(text).matchAll(imported);
  return [...found].map((match) => (match[1] ?? match[2] ?? match[3]) as string);
}

/** The workspace folder a file belongs to: the longest one that holds it. */
function owner(path: string): string {
  const holders = [...manifests.keys()].filter((folder) => path.startsWith(`${folder}/`));
  return holders.sort((a, b) => b.length - a.length)[0] ?? '';
}

function mayImport(path: string, name: string): boolean {
  const from = owner(path);
  if (name.startsWith('node:')) return true;
  if (name.startsWith('.')) return owner(normalize(join(dirname(path), name))) === from;
  const wanted = name.startsWith('@') ? name.split('/').slice(0, 2).join('/') : name.split('/')[0];
  const manifest = manifests.get(from);
  if (wanted === manifest?.name) return true;
  const to = [...manifests].find(([, other]) => other.name === wanted)?.[0];
  if (to === 'test/fixtures') return !source.test(path);
  if (to !== undefined && !mayDepend(from, to)) return false;
  // npm links every workspace package into the root, which has no package of its own to declare it.
  if (from === '' && to !== undefined) return true;
  const declared = {
    ...manifest?.dependencies,
    ...manifest?.optionalDependencies,
    ...manifest?.peerDependencies,
  };
  const forTests = source.test(path) ? {} : manifest?.devDependencies;
  return wanted !== undefined && wanted in { ...declared, ...forTests };
}

/** The layer of each room of a package, as the map says: `base` 0, `wait` 1. */
function layersOf(folder: string): ReadonlyMap<string, number> {
  const map = read('docs/architecture.md').split(`### Rooms of \`${folder}\``)[1]?.split('\n#')[0];
  const rows = (map ?? '').matchAll(/^\| (\d) \| `(\w+)` \|/gm);
  return new Map([...rows].map(([, layer, room]) => [room as string, Number(layer)]));
}

const layers = new Map(
  ['packages/spillway/src', 'packages/http/src'].map((folder) => [folder, layersOf(folder)]),
);

function mayImportRoom(path: string, name: string): boolean {
  if (!name.startsWith('.')) return true;
  const folder = path.split('/').slice(0, 3).join('/');
  const room = (file: string) => (file.split('/').length > 4 ? file.split('/')[3] : undefined);
  const from = room(path);
  const to = room(normalize(join(dirname(path), name)));
  if (from === to) return true;
  const of = layers.get(folder);
  return (of?.get(to ?? '') ?? Infinity) < (of?.get(from ?? '') ?? -1);
}

/** The arrows of the architecture: apps use packages, packages use the runtime, it uses nobody. */
function mayDepend(from: string, to: string): boolean {
  if (from === 'packages/spillway') return false;
  return from.startsWith('packages/') ? to === 'packages/spillway' : to.startsWith('packages/');
}

describe('the repository', () => {
  for (const { name, applies, complaint, broken } of rules) {
    it(name, () => {
      const [path, text] = broken;
      assert.ok(applies.test(path), `the rule does not look at ${path}`);
      assert.notEqual(complaint(text, path), undefined, `the rule does not see what breaks it`);
      const excused = exceptions[name] ?? {};
      const guilty = files
        .filter((file) => applies.test(file))
        .map((file) => ({ file, wrong: complaint(read(file), file) }))
        .filter(({ wrong }) => wrong !== undefined);
      const unexcused = guilty.filter(({ file }) => !(file in excused));
      assert.deepEqual(unexcused, []);
      const idle = Object.keys(excused).filter((file) => !guilty.some((one) => one.file === file));
      assert.deepEqual(idle, [], 'an exception that nothing needs any more');
    });
  }

  it('lets imports go one way only', () => {
    assert.equal(mayDepend('packages/http', 'packages/spillway'), true);
    assert.equal(mayDepend('packages/spillway', 'packages/http'), false);
    assert.equal(mayDepend('packages/sql', 'packages/http'), false);
    assert.equal(mayDepend('packages/cli', 'packages/spillway'), true);
    assert.equal(mayDepend('packages/cli', 'packages/sql'), false);
    assert.equal(mayDepend('packages/http', 'packages/cli'), false);
    assert.equal(mayDepend('apps/fleet', 'packages/cli'), true);
    assert.equal(mayDepend('apps/fleet', 'packages/sql'), true);
    assert.equal(mayDepend('apps/fleet', 'apps/console'), false);
    assert.equal(mayImport('packages/spillway/src/gate.ts', '../../http/src/index.ts'), false);
  });

  it('has the rooms that docs/architecture.md has, and no other', () => {
    for (const [folder, rooms] of layers) {
      const found = files.filter((file) => file.startsWith(`${folder}/`));
      const folders = found.map((file) => file.split('/').slice(3));
      const names = new Set(folders.filter((parts) => parts.length > 1).map(([name]) => name));
      assert.deepEqual([...rooms.keys()].sort(), [...names].sort(), folder);
    }
  });

  it('has at most 26 files in a folder of source, so that one look shows what there is', () => {
    const sources = files.filter((file) => /^(packages|apps)\/[^/]+\/src\//.test(file));
    for (const [folder, within] of Map.groupBy(sources, (file) => dirname(file))) {
      assert.ok(within.length <= 26, `${folder} has ${within.length} files`);
    }
  });

  it('has no room with more lines than docs/decisions/size.md allows', () => {
    const lines = new Map<string, number>();
    for (const file of files.filter((each) => source.test(each))) {
      const [top, name, src, room, inside] = file.split('/');
      const key = `${top}/${name}/src ${inside === undefined ? src : room}`;
      lines.set(key, (lines.get(key) ?? 0) + read(file).split('\n').length - 1);
    }
    const page = read('docs/decisions/size.md');
    for (const [key, count] of lines) {
      const [folder, room] = key.split(' ');
      const row = new RegExp(`^\\| \`${folder}\` .*\`${room}\` ([\\d,]+)`, 'm');
      const budget = Number((row.exec(page)?.[1] ?? '0').replaceAll(',', ''));
      const told = `room ${folder}/${room} has ${count} lines, its budget is ${budget}`;
      assert.ok(count <= budget, `${told}: cut, or raise it in the same commit with the reason`);
    }
  });

  it('names in the tables of docs/parts only options and methods that there are', () => {
    const code = files.filter((file) => /^packages\/[^/]+\/src\//.test(file)).map(read);
    const declared = /(?:(?:readonly|function|class|const|async) |^ {2})(\w+)\??[:(<]/gm;
    const known = new Set([...code.join('\n').matchAll(declared)].map(([, name]) => name));
    for (const page of files.filter((file) => file.startsWith('docs/parts/'))) {
      const cells = [...read(page).matchAll(/^\| ([^|]*`[^|]*) \|/gm)].map(([, cell = '']) => cell);
      const names = cells.flatMap((cell) => [...cell.matchAll(/(\w+)(\(\w*\))?`/g)]);
      const unknown = names.map(([, name]) => name).filter((name) => !known.has(name));
      assert.deepEqual(unknown, [], page);
    }
  });

  it('has in the README only figures that docs/numbers.md has', () => {
    const numbersIn = (text: string) =>
      [...text.matchAll(/\d[\d,]*(\.\d+)?/g)].map(([figure]) => {
        return Math.round(Number(figure.replaceAll(',', '')));
      });
    const measured = new Set(numbersIn(read('docs/numbers.md')));
    const section = read('README.md').split('## Numbers\n')[1]?.split('\n## ')[0] ?? '';
    const rows = section
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(2);
    assert.equal(rows.length, 5);
    for (const row of rows) {
      const [, , ...cells] = row.split('|');
      const strange = numbersIn(cells.join()).filter((figure) => !measured.has(figure));
      assert.deepEqual(strange, [], row);
    }
  });

  it('documents every error code with its status, and no other; one code means one thing', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| `([A-Z_]+)` \| (\d+) \| (yes|no) \|/gm)];
    const documented = rows.map(([, code, status, retryable]) => `${code} ${status} ${retryable}`);
    const errors = [
      ...errorCodes.map((code) => new SpillwayError(code, '')),
      ...httpErrorCodes.map((code) => httpError(code, '')),
      ...files.filter((file) => /^apps\/[^/]+\/src\//.test(file)).flatMap(faultsIn),
    ];
    const thrown = errors.map(({ code, status, retryable }) => {
      return `${code} ${status} ${retryable ? 'yes' : 'no'}`;
    });
    const codes = rows.map(([, code]) => code);
    assert.deepEqual(codes, [...new Set(codes)], 'a code is documented twice');
    assert.deepEqual(new Set(documented), new Set(thrown));
  });
});

/** The codes that a file of an app declares: in a table of faults, or where one is made. */
function faultsIn(file: string): Fault[] {
  const fault = String.raw`status: (\d+), retryable: (\w+)`;
  const inTable = String.raw`^ {2}([A-Z_]+): \{ ${fault} \},$`;
  const declared = new RegExp(`${inTable}|code: '([A-Z_]+)', ${fault}`, 'gm');
  return [...read(file).matchAll(declared)].map((match) => {
    const [code, status, retryable] = match.slice(1).filter((group) => group !== undefined);
    return { code: String(code), status: Number(status), retryable: retryable === 'true' };
  });
}
