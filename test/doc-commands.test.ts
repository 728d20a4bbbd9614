import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { printed } from 'spillway-fixtures/printed';

const root = dirname(import.meta.dirname);
const pages = globSync(
  '{README,CONTRIBUTING,docs/*,docs/guides/*,docs/parts/*,{apps,packages}/*/README}.md',
  { cwd: root },
);
const services = 'fleet|ingest|ranker|console|spillway';
const programs = `npm|npx|curl|git|cd|esbuild|mongoexport|python3|${services}`;
const command = new RegExp(`^(?:(?:${programs}) |node scripts/|export [A-Z_]+=)`);

/** All commands of a page: lines of its blocks for a shell, and those that stand in a sentence. */
function commandsOf(page: string): readonly string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const blocks = [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)];
  const lines = blocks.flatMap(([, language = '', block = '']) => {
    return ['', 'sh'].includes(language) ? block.replaceAll('\\\n', ' ').split('\n') : [];
  });
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '');
  const inline = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
  const all = [...lines.map((line) => line.replace(/ +#.*$/, '')), ...inline];
  return all
    .flatMap((line) => line.split('&&'))
    .map((line) =>
      line
        .trim()
        .replaceAll(/ +/g, ' ')
        .replace(/^npx (?!node |create-)/, ''),
    )
    .filter((line) => command.test(line));
}

/** Commands that another test runs, with words of that test. */
const elsewhere: readonly (readonly [RegExp, file: string, words: string])[] = [
  [/^npm start( -- --demo)?$/, 'test/start.test.ts', '--demo'],
  [/^npm run docs$/, 'test/docs.test.ts', 'scripts/docs.ts'],
  [/^npm run bench -- (all|adopt|gate)/, 'test/bench.test.ts', "'--keep', folder.path"],
  [/^npm run build -- --out/, 'test/pack.test.ts', 'scripts/build.ts'],
  [
    /^npm install( \.\.\/built\/spillway| spillway.*)?$/,
    'test/pack.test.ts',
    "'install', ...flags",
  ],
  [/^(npm create spillway|npx create-spillway) /, 'test/pack.test.ts', "'create-spillway'"],
  [/^cd (\.\.\/)?my-service$/, 'test/pack.test.ts', "join(folder, 'my-quotes')"],
  [/^curl http:\/\/127\.0\.0\.1:8080\/(hello|words\/)/, 'test/pack.test.ts', '/hello`'],
  [/^curl --unix-socket /, 'test/doc-blocks.test.ts', "block(guide('refusals'), 'sh')"],
  [/^esbuild app=/, 'test/pack.test.ts', 'entryPoints: entries'],
  [/^npx node examples\//, 'test/examples.test.ts', 'examples'],
  [/^npx node --cpu-prof bench\/contestant\.ts /, 'test/bench.test.ts', 'contestant.ts'],
  [/^node scripts\/notices\.ts$/, 'test/release.test.ts', 'noticePage'],
  [/^spillway advise /, 'packages/spillway/test/advise.test.ts', "'advise', listener.url"],
  [/^console advise http/, 'packages/spillway/test/advise.test.ts', "'advise', listener.url"],
  [/^console serve --services /, 'apps/console/test/console.test.ts', 'of another machine'],
  [/^fleet import --fishtest/, 'apps/fleet/test/from-fishtest.test.ts', "'--fishtest', dump"],
  [/^fleet user add/, 'apps/fleet/test/commands.test.ts', "'user', 'add', 'ada'"],
  [/^fleet (net|book) add/, 'apps/fleet/test/commands.test.ts', "'net', 'add'"],
  [/^fleet run (add|pause)$/, 'apps/fleet/test/commands.test.ts', "'run', 'add'"],
  [/^fleet worker block$/, 'apps/fleet/test/operator-api.test.ts', 'worker-block'],
  [/^fleet import$/, 'apps/fleet/test/transfer.test.ts', 'import'],
  [/^fleet restore /, 'apps/fleet/test/commands.test.ts', "'restore'"],
  [
    /^fleet serve --host 0\.0\.0\.0 --database postgres/,
    'apps/fleet/test/fleet-postgres.test.ts',
    'postgres',
  ],
  [
    /^ingest (source check|run --source|query|verify|status|export)( |$)/,
    'apps/ingest/test/source-guide.test.ts',
    "blocks('sh')",
  ],
  [/^ingest (follow|run|run --max-requests 100)$/, 'apps/ingest/test/commands.test.ts', "'run'"],
  [/^ingest run --moved$/, 'apps/ingest/test/commands.test.ts', "'--moved'"],
  [
    /^ingest (products --dry-run|transform|resume)$/,
    'apps/ingest/test/commands.test.ts',
    "'transform'",
  ],
  [/^ingest products --filter-regex/, 'apps/ingest/test/commands.test.ts', "'--filter-regex'"],
  [/^ingest copy-store/, 'apps/ingest/test/copy-store.test.ts', 'copy-store'],
  [/^ingest iceberg$/, 'apps/ingest/test/iceberg.test.ts', 'iceberg'],
  [/^ingest verify --data/, 'apps/ingest/test/commands.test.ts', "'verify'"],
  [
    /^ranker (serve|articles|rank|train)\b(?!-)/,
    'apps/ranker/test/ranker-commands.test.ts',
    "'articles'",
  ],
  [
    /^ranker (train-bulk|export|import|retrain|config|user add)/,
    'apps/ranker/test/ranker-commands.test.ts',
    "'train-bulk'",
  ],
  [/^ranker (backup|restore)/, 'apps/ranker/test/ranker-commands.test.ts', "'backup'"],
  [/^export RANKER_KEY=/, 'apps/ranker/test/ranker-commands.test.ts', 'RANKER_KEY'],
];

/** Commands that no test runs, and why. */
const notRun: readonly (readonly [RegExp, why: string])[] = [
  [/^git clone <this repository>$/, 'there is no public address yet'],
  [/^cd spillway$/, 'goes with the clone'],
  [/^npm ci( --omit=optional)?$/, 'has run before any test can; .ci/run begins with it'],
  [/^npm (test|run check)$/, 'is the run that this test is a part of'],
  [/^npm run test:(quick|loaded)$/, 'runs this test itself'],
  [/^npm run test:kills$/, 'runs tests of kills that run with fewer of them'],
  [
    /^npm run screenshots$/,
    'draws pictures into docs/, which a person looks at before they are kept',
  ],
  [/^npm run mutate -- /, 'runs the tests of a file once for each mutant: minutes to hours'],
  [/^mongoexport /, 'reads the database of a fishtest server, which is not here'],
  [/^python3 worker\.py /, "is the official worker's own program, which needs the network"],
  [/^ranker evaluate/, 'takes minutes; its parts are tested in apps/ranker/test'],
];

const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
const ran = new Set<string>();

/** The words of a command as a shell reads them: those in quotes are one. */
function wordsOf(line: string, name = '$&') {
  const meant = line.replace(/<\w+>|\/var\/lib\/\w+/, name);
  const [app = '', ...words] = (meant.match(/"[^"]*"|\S+/g) ?? []).map((word) => {
    return word.replaceAll('"', '');
  });
  return { file: join(root, 'apps', app, 'bin', `${app}.js`), words };
}

interface Place {
  /** The folder that the command is run in: it keeps its data below it. */
  readonly cwd: string;
  /** Settings by which it has a port of its own and asks nobody elsewhere. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Flags that the documentation leaves out, for what has no setting. */
  readonly more?: readonly string[];
  /** Stands for a word like `<you>`, or for a folder of a server's machine. */
  readonly name?: string;
}

/** Runs a command of the pages to its end, as it is written. */
async function run(line: string, { cwd, settings, more = [], name }: Place): Promise<string> {
  const { file, words } = wordsOf(line, name);
  const options = { cwd, env: { ...env, ...settings }, timeout: 200_000 };
  ran.add(line);
  return (await promisify(execFile)(process.execPath, [file, ...words, ...more], options)).stdout;
}

/** Starts a command that serves, and gives the first address that it says. */
async function start(stack: AsyncDisposableStack, line: string, place: Place): Promise<string> {
  const { cwd, settings, more = [], name } = place;
  const { file, words } = wordsOf(line, name);
  const child: ChildProcess = spawn(process.execPath, [file, ...words, ...more], {
    cwd,
    env: { ...env, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  stack.defer(async () => {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  });
  ran.add(line);
  return (await printed(child, /http:\/\/[^\s,]*[^\s,:]/))[0];
}

describe('commands of the documentation', () => {
  it('of fleet and console run as they are written', async () => {
    await using stack = new AsyncDisposableStack();
    const { path: cwd } = stack.use(await mkdtempDisposable(join(tmpdir(), 'spillway-words-')));
    const settings = { FLEET_PORT: '0', FLEET_GITHUB: 'false' };
    const url = await start(stack, 'fleet serve', { cwd, settings });
    assert.match(await run('fleet seed', { cwd }), /runs?/);
    const advised = run('console advise', { cwd });
    assert.match(await run('fleet --help', { cwd }), /serve/);
    assert.match(await run('fleet contributors', { cwd }), /\w/);
    const [{ username: name }] = JSON.parse(await run('fleet user list --json', { cwd }));
    await run('fleet user password <you> --password-random', { cwd, name });
    const link = await run('fleet user link <somebody> --json', { cwd, name });
    assert.match(JSON.parse(link).link, /^\/password\//);
    for (const line of ['fleet export', 'fleet export after.jsonl', 'fleet backup fleet.jsonl']) {
      await run(line, { cwd });
    }
    const place = { cwd, name: join(cwd, 'data'), more: ['--port', '0'] };
    const shown = await start(stack, 'console serve --data /var/lib/spillway', place);
    ran.add('console serve --data /var/lib/app');
    // It lets in once, and then leads to the page.
    assert.equal((await fetch(shown, { redirect: 'manual' })).status, 302);
    assert.match(await run('console open', { cwd }), /^http:/);
    assert.match(await advised, /calm|^fleet: /im);
    assert.equal((await fetch(`${url}/-/ready`)).status, 200);
  });

  it('of ingest run as they are written, against a smaller exchange', async () => {
    await using stack = new AsyncDisposableStack();
    const { path: cwd } = stack.use(await mkdtempDisposable(join(tmpdir(), 'spillway-words-')));
    const more = ['--trades', '3000', '--rate', '100', '--latency', '1'];
    const url = await start(stack, 'ingest exchange', {
      cwd,
      settings: { INGEST_PORT: '0' },
      more,
    });
    const settings = { INGEST_BASE_URL: url };
    const lines = commandsOf('apps/ingest/README.md');
    const query = lines.find((line) => line.startsWith('ingest query "SELECT product'));
    assert.match(await run('ingest run BTC-USD --exchange simulated', { cwd, settings }), /3,000/);
    const verified = await run('ingest verify --exchange simulated', { cwd, settings });
    assert.match(verified, /nothing is missing/);
    assert.match(await run(String(query), { cwd, settings }), /BTC-USD +3,000/);
    for (const line of ['ingest config', 'ingest config --help']) {
      assert.match(await run(line, { cwd, settings }), /store-?connections/i);
    }
  });

  it('are all run by a test, or have a reason', () => {
    const named = new Set(pages.flatMap(commandsOf));
    const known = [...elsewhere.map(([pattern]) => pattern), ...notRun.map(([pattern]) => pattern)];
    const left = [...named].filter((line) => {
      return !ran.has(line) && !known.some((pattern) => pattern.test(line));
    });
    assert.deepEqual(left, [], 'neither run nor explained');
    const idle = known.filter((pattern) => ![...named].some((line) => pattern.test(line)));
    assert.deepEqual(idle, [], 'no page has them any more');
    for (const [, file, words] of elsewhere) {
      assert.ok(readFileSync(join(root, file), 'utf8').includes(words), `${file}: ${words}`);
    }
  });
});
