import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Backlog, Breaker, Bucket, Lane, Lease, MemoryStore, Panel, SqliteFile } from 'spillway';
import type { makeProgram } from 'spillway-cli';
import { CertificateAuthority } from 'spillway-fixtures/certificates';
import { findProgram, requires } from 'spillway-fixtures/requires';
import { askOperator, createServer, operatorSocket } from 'spillway-http';

type Command = ReturnType<typeof makeProgram>;

const root = dirname(import.meta.dirname);
const run = promisify(execFile);
const pages = globSync(
  '{README,CONTRIBUTING,docs/*,docs/guides/*,docs/parts/*,{apps,packages}/*/README}.md',
  {
    cwd: root,
  },
);
const read = (page: string) => readFileSync(join(root, page), 'utf8');
const guide = (name: string) => read(`docs/guides/${name}.md`);

/** The first block of a page in this language. */
function block(text: string, language: string): string {
  const found = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'm').exec(text)?.[1];
  assert.ok(found, `a block of ${language}`);
  return found;
}

async function programs(): Promise<ReadonlyMap<string, Command>> {
  const apps = ['fleet', 'ingest', 'ranker', 'console'];
  const all = apps.map(async (app) => {
    const file = pathToFileURL(join(root, 'apps', app, 'src', 'commands', 'program.ts'));
    const made = (await import(file.href))[`${app}Program`]() as Command;
    return [app, made] as const;
  });
  return new Map(await Promise.all(all));
}

/** The complaint about a command line of a page, if it names something that is not there. */
function complaint(program: Command, line: string): string | undefined {
  const words = line.trim().split(/\s+/);
  let command = program;
  for (const word of words) {
    const next = command.commands.find((each) => [each.name(), ...each.aliases()].includes(word));
    if (next === undefined) break;
    command = next;
  }
  const isKnown = command !== program || words[0] === '--help';
  if (!isKnown) return `no command ${words[0]}`;
  const known = [...command.options.map(({ long }) => long), '--help', '--version'];
  const flags = words.flatMap((word) => /^--[a-z][\w-]*/.exec(word)?.[0] ?? []);
  const wrong = flags.find((flag) => !known.includes(flag));
  return wrong && `${command.name()} has no ${wrong}`;
}

describe('the documentation', () => {
  it('names commands and options that are there', async () => {
    const all = await programs();
    const wrong: string[] = [];
    let count = 0;
    for (const page of pages) {
      const named = read(page).matchAll(
        /(?:npx |`|\.bin\/|: )(fleet|ingest|ranker|console) ((?:-{2})?[a-z][^`\n|&;#(…"]*)/g,
      );
      for (const [whole, app = '', line = ''] of named) {
        if (whole.startsWith(': ')) continue;
        count += 1;
        const problem = complaint(all.get(app) as Command, line);
        if (problem !== undefined) wrong.push(`${page}: ${app} ${line.trim()}: ${problem}`);
      }
    }
    assert.ok(count > 50, `${count} commands were found`);
    assert.deepEqual(wrong, []);
  });

  it('names scripts that are there', () => {
    const { scripts } = JSON.parse(read('package.json'));
    const named = pages.flatMap((page) => {
      return [...read(page).matchAll(/npm run ([\w:]+)/g)].map(([, name = '']) => name);
    });
    assert.deepEqual(
      named.filter((name) => !(name in scripts)),
      [],
    );
  });

  it('has a block for nginx that nginx takes', requires('nginx'), async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-nginx-'));
    const { cert, key } = new CertificateAuthority().issue({ names: ['localhost'] });
    await writeFile(join(folder.path, 'fleet.pem'), cert);
    await writeFile(join(folder.path, 'fleet.key'), key);
    const written = block(guide('proxies'), 'nginx').replaceAll('/etc/ssl', folder.path);
    const file = join(folder.path, 'nginx.conf');
    const pid = `pid ${folder.path}/nginx.pid;`;
    await writeFile(file, `${pid}\nevents {}\nhttp {\naccess_log off;\n${written}}\n`);
    const words = ['-t', '-e', 'stderr', '-p', folder.path, '-c', file];
    await run(String(findProgram('nginx')), words);
  });

  it('has a block for HAProxy that HAProxy takes', requires('haproxy'), async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-haproxy-'));
    const file = join(folder.path, 'haproxy.cfg');
    const times = 'timeout connect 5s\n  timeout client 60s';
    const defaults = `defaults\n  mode http\n  ${times}\n`;
    const front = 'frontend web\n  bind unix@/web.sock\n  default_backend fleet\n';
    await writeFile(file, `${defaults}${front}${block(guide('proxies'), 'haproxy')}`);
    await run(String(findProgram('haproxy')), ['-c', '-f', file]);
  });

  it('has a unit of keys that systemd knows, and commands that are there', async () => {
    const known: Readonly<Record<string, readonly string[]>> = {
      Unit: ['Description', 'After'],
      Service: [
        ...['WorkingDirectory', 'ExecStart', 'Restart', 'User', 'StateDirectory'],
        ...['TimeoutStopSec', 'NoNewPrivileges', 'ProtectSystem'],
      ],
      Install: ['WantedBy'],
    };
    const sections = block(guide('running'), 'ini').split(/^\[/m).slice(1);
    for (const section of sections) {
      const [name = '', ...lines] = section.split('\n');
      const keys = lines.filter((line) => /^\w/.test(line)).map((line) => line.split('=')[0]);
      const unknown = keys.filter((key) => !known[name.replace(']', '')]?.includes(String(key)));
      assert.deepEqual(unknown, [], name);
    }
    assert.equal(sections.length, 3);
    const fleet = (await programs()).get('fleet') as Command;
    const image = /^CMD (\[.*\])$/m.exec(block(guide('running'), 'dockerfile'))?.[1];
    const [program, ...words] = JSON.parse(String(image));
    assert.equal(program, 'node_modules/.bin/fleet');
    assert.equal(complaint(fleet, words.join(' ')), undefined);
  });

  it('has alerts and graphs of metrics that are there', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-metrics-'));
    const panel = new Panel();
    const store = new MemoryStore();
    await using lease = await Lease.acquire({ store, name: 'primary', ttlMs: 60_000 });
    await using file = await SqliteFile.open({ path: join(folder.path, 'any.db') });
    await using backlog = new Backlog<string>({ queueMax: 1, consume: () => {} });
    const bucket = new Bucket({ ratePerSecond: 1, queueMax: 1 });
    const parts = { lease, file, backlog, bucket, breaker: new Breaker() };
    for (const [name, part] of Object.entries(parts)) panel.watch(name, part);
    const operator = { panel, socket: operatorSocket(folder.path) };
    await using server = await createServer({ operator });
    await server.start();
    const { text } = await askOperator({ socket: operator.socket, path: '/-/metrics' });
    const known = new Set([...text.matchAll(/^(\w+)[ {]/gm)].map(([, name]) => name));
    const named = guide('operations').matchAll(/\b(?:spillway|nodejs|process)_[a-z]\w+[a-z0-9]\b/g);
    const names = new Set([...named].map(([name]) => name));
    assert.ok(names.size > 12);
    assert.deepEqual([...names.difference(known)], []);
  });

  it('has an operator’s call that does what it says', requires('curl'), async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-act-'));
    const data = join(folder.path, 'data', 'fleet');
    await mkdir(data, { recursive: true });
    const lane = new Lane({ name: 'read', limit: { fixed: 2 }, queueMax: 0, deadlineMs: 1_000 });
    await using server = await createServer({
      port: 0,
      operator: { socket: operatorSocket(data) },
    });
    server.app.get('/', { config: { lane } }, async () => 'here');
    await server.start();
    await run('bash', ['-c', block(guide('refusals'), 'sh')], { cwd: folder.path });
    assert.equal(lane.stats.limit, 40);
  });
});
