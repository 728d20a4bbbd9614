import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fleetProgram } from '../src/commands/program.ts';
import { fleet, fleetFile, ServedFleet } from './fixtures/fleet-command.ts';
import { temporaryFolder } from './fixtures/fleet-site.ts';

type Command = ReturnType<typeof fleetProgram>;

function helpOf(command: Command): string {
  let help = '';
  const writeOut = (text: string) => {
    help += text;
  };
  command.configureOutput({ writeOut }).outputHelp();
  return help;
}

const sha = 'a'.repeat(40);
const runWords = [
  ...['run', 'add', '--user', 'ada', '--preset', 'stc', '--book', 'tiny.epd'],
  ...['--new-tag', 'new', '--base-tag', 'base', '--resolved-new', sha, '--resolved-base', sha],
  ...['--new-signature', '123456', '--base-signature', '123456'],
];
const epd = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1\n';

describe('the command line', { concurrency: 2 }, () => {
  it('has help with examples for every command', () => {
    const program = fleetProgram();
    const leaves = program.commands.flatMap((one) =>
      one.commands.length > 0 ? one.commands : one,
    );
    assert.ok(leaves.length >= 20, `${leaves.length} commands`);
    for (const command of [program, ...leaves]) {
      const help = helpOf(command);
      assert.match(help, /\nExamples:\n {2}\$ fleet /, command.name());
      assert.match(help, /^Usage: fleet/, command.name());
      const examples = help.slice(help.indexOf('\nExamples:'));
      for (const [, flag = ''] of examples.matchAll(/ (--[a-z-]+)/g)) {
        assert.ok(command === program || help.indexOf(flag) < help.indexOf(examples), flag);
      }
    }
  });

  it('has the data folder of npm start, and tells of a database that it makes', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const cwd = { data: undefined, cwd: folder };
    const path = join(folder, 'data', 'fleet', 'fleet.db');
    for (const words of [['user', 'list'], ['run', 'list'], ['net', 'list'], ['export']]) {
      const { code, stdout, stderr } = await fleet(words, cwd);
      assert.equal(stdout, '');
      assert.match(stderr, /^fleet: No server runs in .*, and there is no database: name its/);
      assert.equal(code, 2);
    }
    const wrong = await fleet(['seed', '--user', 'two words'], cwd);
    assert.match(wrong.stderr, /^fleet: --user: must be 2 to 64 letters and digits/);
    assert.equal(wrong.code, 2);
    assert.deepEqual(readdirSync(folder), [], 'what only reads, or is wrong, makes nothing');
    const made = await fleet(['seed'], cwd);
    assert.match(
      made.stderr,
      /^No server runs in .*, and there is no database: .*fleet\.db is made/,
    );
    assert.ok(existsSync(path));
    assert.equal((await fleet(['user', 'list'], cwd)).stderr, '');
    renameSync(path, join(folder, 'data', 'fleet.db'));
    assert.equal((await fleet(['user', 'list', '--data', 'data'], cwd)).code, 0);
  });

  it('makes no file for a server that is refused', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    await using other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    for (const [words, problem] of [
      [['--port', String(port)], /is in use; choose another with --port/],
      [['--port', '0', '--operator-port', '1'], /--operator-port: needs --operator-token/],
    ] as const) {
      const cwd = { data: undefined, cwd: folder };
      const { code, stderr } = await fleet(['serve', '--github', 'false', ...words], cwd);
      assert.match(stderr, problem);
      assert.notEqual(code, 0);
      assert.deepEqual(readdirSync(folder), []);
    }
  });

  it('restores all of a backup, or leaves nothing behind', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const from = { data: join(folder, 'from'), cwd: folder };
    const to = { data: join(folder, 'to'), cwd: folder };
    await fleet(['seed'], from);
    assert.equal((await fleet(['export', 'whole.jsonl'], from)).code, 0);
    const [header] = readFileSync(join(folder, 'whole.jsonl'), 'utf8').split('\n');
    writeFileSync(join(folder, 'half.jsonl'), `${header}\n`);
    const cases: readonly (readonly [readonly string[], string, number])[] = [
      [['restore', 'none.jsonl'], 'none.jsonl: there is no such file', 2],
      [['restore', 'from'], 'from: is a folder; name a file', 2],
      [['restore', 'half.jsonl'], 'it ends after 1 lines, without the last one', 1],
    ];
    for (const [words, problem, code] of cases) {
      assert.deepEqual(await fleet(words, to), { code, stdout: '', stderr: `fleet: ${problem}\n` });
      assert.deepEqual(existsSync(to.data) ? readdirSync(to.data) : [], []);
    }
    const nowhere = await fleet(['export', 'none/all.jsonl'], from);
    assert.match(
      nowhere.stderr,
      /^fleet: none\/all\.jsonl: there is no folder none; make it first$/m,
    );
    const taken = await fleet(['export', 'to'], from);
    assert.equal(taken.stderr, 'fleet: to: is a folder; name a file in it\n');
    assert.equal((await fleet(['restore', 'whole.jsonl'], to)).code, 0);
    assert.deepEqual(readdirSync(to.data), ['fleet.db']);
    const runs = await fleet(['run', 'list', '--json'], to);
    assert.equal(JSON.parse(runs.stdout).length, 2);
  });

  it('exits with 2 for wrong use, and says what is wrong and what to do', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const cases: readonly (readonly [readonly string[], RegExp, Record<string, string>?])[] = [
      [['usr'], /unknown command 'usr'[\s\S]*Did you mean user\?[\s\S]*--help/],
      [['user', 'list', '--jsn'], /unknown option '--jsn'[\s\S]*Did you mean --json\?/],
      [['run', 'add'], /--user <name>/],
      [['user', 'add', 'ada'], /no password: .*--password-stdin, or set FLEET_PASSWORD/],
      [['config', '--port', 'x'], /fleet: port \(flag --port\): must be an integer/],
      [['user', 'list'], /FLEET_PROT: is not known; did you mean FLEET_PORT/, { FLEET_PROT: '1' }],
      [['run', 'add', '--user', 'a', '--file', 'none'], /none: cannot be read as JSON: ENOENT/],
      [['run', 'add', '--user', 'a', '--sprt', '1'], /--sprt: must be like 0,2, got 1/],
      [['book', 'add', 'none.epd'], /^fleet: none\.epd: there is no such file$/m],
      [['book', 'add', '.'], /^fleet: \.: is no file$/m],
      [['net', 'add', 'nn-0123456789ab.nnue'], /^fleet: nn-0123456789ab\.nnue: there is no such/],
    ];
    const told = await Promise.all(
      cases.map(([words, , environment = {}]) => fleet(words, { data, environment })),
    );
    for (const [at, { code, stderr, stdout }] of told.entries()) {
      assert.match(stderr, cases[at]?.[1] as RegExp);
      assert.deepEqual([code, stdout], [2, ''], stderr);
    }
  });

  it('works on the database itself while no server runs', async () => {
    await using stack = new AsyncDisposableStack();
    const data = join(await temporaryFolder(stack), 'made', 'by', 'it');
    const password = ['user', 'add', 'ada', '--password-stdin', '--json'];
    const added = await fleet(password, { data, input: 'secret\nmore\n' });
    const nobody = await fleet(['contributors'], { data });
    assert.match(nobody.stdout, /^Nobody has played a game/, nobody.stderr);
    assert.equal(added.code, 0, added.stderr);
    assert.equal(JSON.parse(added.stdout).username, 'ada');
    assert.doesNotMatch(added.stdout + added.stderr, /secret/);
    const book = join(data, 'tiny.epd');
    writeFileSync(book, epd);
    assert.equal(
      (await fleet(['book', 'add', book], { data })).stdout,
      'Book tiny.epd was added.\n',
    );
    const wrong = await fleet([...runWords, '--tc', '9'.repeat(60)], { data });
    assert.match(wrong.stderr, /^fleet: --tc: must be seconds per game/);
    assert.equal(wrong.code, 2);
    const info = ['--info', 'red \u001b[31m, turned \u202e'];
    const run = await fleet([...runWords, ...info, '--threads', '2', '--json'], { data });
    const { id } = JSON.parse(run.stdout);
    const plain = await fleet(['run', 'show', id], { data });
    assert.match(plain.stdout, /red \uFFFD\[31m, turned \uFFFD\n/, 'a terminal is not steered');
    const { stdout } = await fleet(['run', 'show', id, '--json'], { data });
    const { args } = JSON.parse(stdout);
    assert.deepEqual(
      [args.threads, args.tc, args.new_options, args.sprt.elo1, args.book],
      [2, '10+0.1', 'Hash=16', 2, 'tiny.epd'],
    );
    const missing = await fleet(['run', 'stop', '0'.repeat(24)], { data });
    assert.match(missing.stderr, /^fleet: there is no run 0{24}; see fleet run list$/m);
    assert.equal(missing.code, 1);
  });

  it('asks the server while one runs, and gives a worker something to do', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const site = stack.use(await ServedFleet.start(data));
    const seeded = await fleet(['seed', '--json'], { data });
    assert.equal(seeded.code, 0, seeded.stderr);
    const { username, password, runs } = JSON.parse(seeded.stdout);
    assert.deepEqual(runs.length, 2);
    const again = await fleet(['seed'], { data });
    assert.match(again.stdout, /, waiting\nA run that waits is played as soon as a worker asks/);
    const inServer = await fetch(`${site.url}/api/active_runs`);
    const ids = runs.map((run: { id: string }) => run.id);
    const played = Object.keys((await inServer.json()) as object);
    assert.deepEqual(new Set(played), new Set(ids));
    const version = await fetch(`${site.url}/api/request_version`, {
      method: 'POST',
      body: JSON.stringify({ password, worker_info: { username } }),
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(((await version.json()) as { version: number }).version, 325);
    const other = await fleet(['import'], { data, input: '' });
    assert.match(other.stderr, /a server has it open; stop that first/);
    assert.equal(other.code, 1);
  });

  it('takes over from a server that was killed, once its claim has run out', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const site = stack.use(await ServedFleet.start(data));
    await site.stop('SIGKILL');
    const { code, stdout, stderr } = await fleet(['user', 'list', '--json'], { data });
    assert.equal(code, 0, stderr);
    assert.equal(JSON.parse(stdout)[0].username, 'admin');
  });

  it('adds nets under the name that they must have', async () => {
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const net = join(data, 'net.bin');
    writeFileSync(net, 'abc');
    const [good, bad] = await Promise.all([
      fleet(['net', 'add', net, '--json'], { data }),
      fleet(['net', 'add', join(data, 'none')], { data: join(data, 'other') }),
    ]);
    const [{ name }] = JSON.parse(good.stdout);
    assert.equal(name, 'nn-ba7816bf8f01.nnue');
    assert.equal(readFileSync(join(data, 'nets', name), 'utf8'), 'abc');
    assert.match(bad.stderr, /none: there is no such file$/m);
    assert.deepEqual([bad.code, existsSync(join(data, 'other'))], [2, false], 'nothing is made');
  });

  it('shows settings with where they came from', async () => {
    await using stack = new AsyncDisposableStack();
    const data = join(await temporaryFolder(stack), 'data');
    mkdirSync(data);
    writeFileSync(join(data, 'fleet.json'), JSON.stringify({ port: 1, host: '127.0.0.9' }));
    const environment = { FLEET_PORT: '2', FLEET_GITHUB_TOKEN: 'hush' };
    const { stdout } = await fleet(['config'], { data, environment });
    assert.match(stdout, /^port +2 +environment FLEET_PORT$/m);
    assert.match(stdout, /^host +127\.0\.0\.9 +file .*fleet\.json$/m);
    assert.match(stdout, /^githubToken +\(hidden\) +environment FLEET_GITHUB_TOKEN$/m);
    assert.match(stdout, /^log +no +default$/m);
    assert.doesNotMatch(stdout, /hush/);
  });

  it('asks for a password twice, and shows it to nobody', async () => {
    const { status } = spawnSync('script', ['--version']);
    assert.equal(status, 0, 'this test needs a terminal: install `script`, of util-linux');
    await using stack = new AsyncDisposableStack();
    const data = await temporaryFolder(stack);
    const words = [process.execPath, fleetFile, 'user', 'add', 'ada', '--data', data];
    const terminal = spawn('script', ['-qec', words.join(' '), '/dev/null']);
    const answers = new Map([
      ['Password: ', 'secrex\u007ft\r'],
      ['Once more: ', 'secret\r'],
    ]);
    let shown = '';
    terminal.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      // A prompt may arrive in pieces, or two at once.
      shown += chunk;
      for (const [prompt, answer] of answers) {
        if (!shown.includes(prompt)) continue;
        answers.delete(prompt);
        terminal.stdin.write(answer);
      }
    });
    const [code] = await once(terminal, 'close');
    assert.equal(code, 0, shown);
    assert.match(shown, /ada was added/);
    assert.doesNotMatch(shown, /secre/);
  });

  it('finds a Node that can run it, or says what to install', async () => {
    await using stack = new AsyncDisposableStack();
    const older = 'Object.defineProperty(process,"versions",{value:{node:"20.11.0"}})';
    const run = (file: string) => {
      const words = ['--import', `data:text/javascript,${older}`, file, '--help'];
      return spawnSync(process.execPath, words, { encoding: 'utf8' });
    };
    const found = run(fleetFile);
    assert.equal(found.status, 0, found.stderr);
    assert.match(found.stdout, /^Usage: fleet/);
    const clone = await temporaryFolder(stack);
    const apps = join(import.meta.dirname, '..', '..');
    for (const file of ['launch.js', 'fleet/package.json', 'fleet/bin/fleet.js']) {
      cpSync(join(apps, file), join(clone, file));
    }
    const { status, stdout, stderr } = run(join(clone, 'fleet', 'bin', 'fleet.js'));
    assert.deepEqual([status, stdout], [1, '']);
    assert.match(stderr, /needs Node 24\.12 or newer, and this is 20\.11\.0[\s\S]*npm ci/);
  });
});
