import assert from 'node:assert/strict';
import { mkdtempDisposable, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readDeclaration } from '../src/connectors/declaration.ts';
import { Engine } from '../src/table/engine.ts';
import { type Ended, IngestCommand } from './fixtures/ingest-command.ts';
import { type ApiRecord, issueOf, LoopbackApi } from './fixtures/loopback-api.ts';
import { inScene } from './fixtures/source-scene.ts';

const docs = join(import.meta.dirname, '..', '..', '..', 'docs', 'guides');
const guide = await readFile(join(docs, 'your-api-in-ten-minutes.md'), 'utf8');

function blocks(language: string): readonly string[] {
  const found = guide.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'));
  return [...found].map(([, text]) => String(text));
}

/** The words of a command as a shell reads them: those in quotes are one. */
function wordsOf(line: string): readonly string[] {
  const words = line.match(/"[^"]*"|\S+/g) ?? [];
  return words.map((word) => word.replaceAll('"', ''));
}

describe('the guide to an API of your own', () => {
  it('works as it is written, from the declaration to the second run', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-guide-'));
    await using api = await LoopbackApi.open();
    const list = Array.from({ length: 130 }, (_, at) => {
      return issueOf(at + 1, new Date(Date.UTC(2026, 0, 1, 0, at)).toISOString());
    });
    api.lists.set('/repos/octocat/hello/issues', list);
    await writeFile(join(folder.path, 'issues.yaml'), String(blocks('yaml')[0]));
    const environment = { GITHUB_TOKEN: 'hidden-word', INGEST_BASE_URL: api.url };
    const run = async (line: string): Promise<Ended> => {
      const words = wordsOf(line);
      assert.deepEqual(words.slice(0, 2), ['npx', 'ingest']);
      const done = await new IngestCommand(words.slice(2), environment, folder.path).ended;
      assert.equal(done.code, 0, `${line}\n${done.stdout}${done.stderr}`);
      assert.ok(!`${done.stdout}${done.stderr}`.includes('hidden-word'));
      return done;
    };
    const lines = blocks('sh').flatMap((text) => text.trim().split('\n'));
    const [check, harvest, query, verify, status, exported, again] = lines.map(String) as string[];
    assert.equal(lines.length, 7);
    const checked = await run(check as string);
    assert.match(checked.stdout, /^id +BIGINT +yes +1$/m);
    assert.match(checked.stdout, /^labels +JSON/m);
    assert.match(checked.stdout, /^updated_at +TIMESTAMPTZ/m);
    assert.match(checked.stdout, /100 records in one page\.$/m);
    assert.match((await run(harvest as string)).stdout, /130 rows added/);
    assert.match((await run(query as string)).stdout, /closed +43 +6\nopen +87 +6/);
    assert.match((await run(verify as string)).stdout, /nothing is missing, nothing is twice/);
    assert.match((await run(status as string)).stdout, /octocat\/hello +130 +130/);
    assert.match((await run(exported as string)).stdout, /130 records written to/);
    const csv = await readFile(join(folder.path, 'issues.csv'), 'utf8');
    assert.match(csv, /^product,date,_seq|^_seq/);
    assert.match(csv, /"\{""login"":""octocat"",""id"":1\}"/);
    const engine = { memoryMb: 64, threads: 1, scratch: folder.path };
    await using duckdb = await Engine.open(engine);
    const sql = String(blocks('sql')[0]).replace("'data/", `'${folder.path}/data/`);
    assert.deepEqual(Object.values((await duckdb.rows(sql))[0] ?? {}), ['130']);
    Object.assign(list[0] ?? {}, { title: 'Changed', updated_at: '2026-02-01T00:00:00.000Z' });
    assert.match((await run(again as string)).stdout, /1 line of 1 raw file read, 0 rows added/);
    const words = ['query', '--json', 'SELECT title FROM issues WHERE id = 1'];
    const changed = await new IngestCommand(words, environment, folder.path).ended;
    assert.equal(JSON.parse(changed.stdout).rows[0].title, 'Changed');
  });

  it('has every way to page and every field in its tables', async () => {
    const { problemsIn } = await import('../src/connectors/declaration.ts');
    const { parse } = await import('yaml');
    const source = parse(String(blocks('yaml')[0]));
    const shown = [...guide.matchAll(/`(\{ by: [^`]+\})`/g)].map(([, text]) => parse(String(text)));
    assert.deepEqual(new Set(shown.map(({ by }) => by)).size, 7);
    const exchange = parse(String(blocks('yaml')[1]));
    for (const pages of [...shown, exchange.pages]) {
      const isTrades = pages.by === 'moment' || pages === exchange.pages;
      const { trades } = isTrades ? exchange : {};
      assert.deepEqual(problemsIn({ ...source, pages, trades }), [], JSON.stringify(pages));
    }
    const [problem] = problemsIn({ ...source, wrong: 1 });
    const fields = String(problem?.rule).replace('one of ', '').split(', ');
    for (const field of fields) assert.match(guide, new RegExp(`^\\| .*\`${field}\``, 'm'), field);
  });

  it('names two sources that read what their APIs are documented to answer', async () => {
    const folder = join(import.meta.dirname, '..', 'sources');
    const titles = Array.from({ length: 130 }, (_, at) => `title ${at + 1}`);
    const shipped: Readonly<Record<string, readonly [path: string, list: ApiRecord[]]>> = {
      'github-issues.yaml': [
        '/repos/nodejs/node/issues',
        titles.map((_, at) => issueOf(at + 1, new Date(Date.UTC(2026, 0, 1, 0, at)).toISOString())),
      ],
      'jsonplaceholder.yaml': [
        '/posts',
        titles.map((title, at) => ({ userId: 1, id: at + 1, title, body: 'est rerum\ntempore' })),
      ],
    };
    assert.deepEqual((await readdir(folder)).sort(), Object.keys(shipped));
    for (const [file, [path, list]] of Object.entries(shipped)) {
      const declaration = Object(await readDeclaration(join(folder, file)));
      await inScene(declaration, async (scene, api) => {
        api.lists.set(path, list);
        const product = path.replace(/^\/(repos\/)?|\/issues$/g, '');
        const { outcomes } = await scene.run(false, [product]);
        assert.deepEqual([outcomes[0]?.status, outcomes[0]?.trades], ['done', 130], file);
        await scene.assertTrue(list);
      });
    }
  });
});
