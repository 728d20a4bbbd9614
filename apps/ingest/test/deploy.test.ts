import assert from 'node:assert/strict';
import { access, mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { startFauxqs } from 'fauxqs';
import { postgresUrl } from 'spillway-fixtures/postgres';
import { parse } from 'yaml';
import { readSettings, settingsReader } from '../src/settings.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { IngestCommand } from './fixtures/ingest-command.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const deploy = join(import.meta.dirname, '..', 'deploy');

interface ComposeService {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly healthcheck: { readonly test: readonly string[] };
  readonly depends_on: object;
}

async function compose(): Promise<Readonly<Record<string, ComposeService>>> {
  const text = await readFile(join(deploy, 'compose.yaml'), 'utf8');
  const { services, volumes } = parse(text, { merge: true });
  assert.deepEqual(Object.keys(volumes), ['postgres', 's3']);
  return services;
}

/** `INGEST_STORE_CONNECTIONS` for `storeConnections`. */
function variableOf(setting: string): string {
  return `INGEST_${setting.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

describe('the container recipe', () => {
  it('copies what there is, and starts the program that there is', async () => {
    const lines = (await readFile(join(deploy, 'Dockerfile'), 'utf8')).split('\n');
    const wordsOf = (name: string) =>
      lines.flatMap((line) => (line.startsWith(`${name} `) ? [line.slice(name.length + 1)] : []));
    const copied = wordsOf('COPY').flatMap((words) => words.split(' ').slice(0, -1));
    assert.ok(copied.length >= 5);
    for (const path of copied) await access(join(root, path));
    const [node, program] = JSON.parse(wordsOf('ENTRYPOINT')[0] ?? '');
    assert.equal(node, 'node');
    await access(join(root, program));
    const known = settingsReader.names.map(variableOf);
    const variables = wordsOf('ENV').flatMap((words) => words.split(' '));
    for (const variable of variables) assert.ok(known.includes(variable.split('=')[0] ?? ''));
    const { name } = JSON.parse(
      await readFile(join(import.meta.dirname, '../package.json'), 'utf8'),
    );
    assert.ok(wordsOf('RUN').some((words) => words.endsWith(`--workspace ${name}`)));
  });

  it('is what the compose file builds, with settings that there are', async () => {
    const services = await compose();
    const ours = Object.values(services).filter(({ image }) => image === 'spillway-ingest');
    assert.equal(ours.length, 2);
    for (const { build, environment, depends_on } of ours) {
      await access(join(deploy, build?.context ?? '', build?.dockerfile ?? ''));
      const { settings } = readSettings({ flags: {}, environment });
      assert.deepEqual([settings.storeConnections, settings.s3Bucket], [4, 'trades']);
      const known = settingsReader.names.map(variableOf);
      const own = Object.keys(environment).filter((name) => name.startsWith('INGEST_'));
      for (const name of own) assert.ok(known.includes(name), `${name} is no setting`);
      for (const name of Object.keys(depends_on)) assert.ok(name in services, name);
    }
  });

  it('keeps its products up to date when its commands run, each its own share', async () => {
    await using stack = new AsyncDisposableStack();
    const ids = ['BTC-USD', 'ETH-USD', 'SOL-USD', 'LTC-USD'];
    const products = ids.map((id) => ({ id, trades: 300 }));
    const exchange = stack.use(await startExchange({ products }));
    const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
    stack.defer(() => server.stop());
    server.createBucket('trades');
    const store = await postgresUrl(stack);
    const ours = Object.values(await compose()).filter(({ image }) => image === 'spillway-ingest');
    const commands: IngestCommand[] = [];
    for (const { command, environment } of ours) {
      const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-deploy-')));
      const variables = {
        ...environment,
        ...{ INGEST_STORE: store, INGEST_S3_ENDPOINT: `http://127.0.0.1:${server.port}` },
        ...{ INGEST_EXCHANGE: 'simulated', INGEST_BASE_URL: exchange.url, INGEST_PORT: '0' },
        ...{ INGEST_DATA: folder.path, AWS_SECRET_ACCESS_KEY: 'secret' },
      };
      const started = new IngestCommand(command, variables);
      stack.defer(() => started.signal('SIGKILL'));
      commands.push(started);
    }
    const seen = new Set<string>();
    for (const [at, command] of commands.entries()) {
      const url = await command.url();
      const check = ours[at]?.healthcheck.test.at(-1) ?? '';
      const [, path] = /127\.0\.0\.1:7070(\/[-/\w]+)'/.exec(check) ?? assert.fail(check);
      assert.equal((await fetch(`${url}${path}`)).status, 200);
      for (;;) {
        const page = (await (await fetch(`${url}/`)).text()).replace(/<!--.*?-->/g, '');
        const done = ids.filter((id) =>
          new RegExp(`${id}</th>.*?data-name="Trades"[^>]*><span>300<`, 's').test(page),
        );
        for (const id of done) seen.add(`${at} ${id}`);
        if (done.length === 2) break;
        await setTimeout(20);
      }
    }
    for (const command of commands) command.signal('SIGTERM');
    const codes = await Promise.all(commands.map(async ({ ended }) => (await ended).code));
    assert.deepEqual(codes, [0, 0]);
    assert.equal(new Set([...seen].map((one) => one.split(' ')[1])).size, 4);
  });
});
