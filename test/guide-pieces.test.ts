import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Listener } from 'spillway/connect';
import { scratchFolder } from 'spillway-fixtures/scratch';

const root = dirname(import.meta.dirname);

/** The program around a piece of code: what it leaves to the reader, and what shows its effect. */
interface Surroundings {
  readonly before: string;
  /** Printed at the end: "done" if the piece did what it says. */
  readonly after?: string;
}

const lane = `const url = String(process.env.UPSTREAM);
const request = new Request(url);`;

/** Pieces of code that are no programs, by page and number. */
const pieces: Readonly<Record<string, Surroundings>> = {
  'README.md 1': {
    before: `import { Breaker, Bucket, Lane, Retry, stack } from 'spillway';\n${lane}`,
  },
  'docs/guides/sizing.md 1': { before: `import { Lane } from 'spillway';\n${lane}` },
  'docs/guides/adopt.md 4': {
    before: `import { Panel } from 'spillway';\nconst panel = new Panel();`,
  },
  'docs/guides/from-p-limit.md 1': {
    before: `import pLimit from 'p-limit';
const urls = [1, 2, 3];
const fetchPage = async (url) => url;`,
    after: `if (pages.length !== 3) throw new Error('pages are missing');`,
  },
  'packages/spillway/README.md 3': {
    before: `const scene = 'a scene';
const { signal } = new AbortController();
const render = async (_scene: string, _options: { signal: AbortSignal }) => {};`,
  },
  'packages/http/README.md 2': {
    before: `import { createServer } from 'spillway-http';
import { Database } from 'spillway-sql';
interface Schema { readonly payment: { paid: number } }
const database = await Database.open<Schema>({ url: 'sqlite:shop.db' });
const statements = ['create table payment (paid integer)'];
await database.migrate([{ number: 1, name: 'payments', statements }]);`,
    after: `const headers = { 'idempotency-key': 'one' };
const pay = async () => {
  const answer = await server.app.inject({ method: 'POST', url: '/payments', headers });
  const retryAfter = Number(answer.headers['retry-after']);
  // As on a machine so busy that the store does not answer within a second.
  if (!(retryAfter > 0)) return answer.json();
  await new Promise((resolve) => setTimeout(resolve, retryAfter * 1000));
  return pay();
};
const answers = [await pay(), await pay()];
if (JSON.stringify(answers) !== '[{"paid":1},{"paid":1}]') throw new Error(JSON.stringify(answers));
const rows = await database.kysely.selectFrom('payment').selectAll().execute();
if (rows.length !== 1) throw new Error('it was paid ' + rows.length + ' times');
await server.close();
await database.close();`,
  },
};

/** The test that runs each block of a page, in their order; `here` for the pieces above. */
const runBy: Readonly<Record<string, readonly string[]>> = {
  'README.md': ['here'],
  'apps/ingest/README.md': ['pack'],
  'docs/guides/a-store-of-your-own.md': ['guide-stores', 'guide-stores'],
  'docs/guides/adopt.md': ['guides', 'guides', 'guides', 'here'],
  'docs/guides/from-cockatiel.md': ['guide-programs'],
  'docs/guides/from-p-limit.md': ['here', 'guide-programs'],
  'docs/guides/from-piscina.md': ['guide-programs', 'guide-programs'],
  'docs/guides/from-rate-limiter-flexible.md': ['guide-programs', 'guide-programs'],
  'docs/guides/many-machines.md': ['guide-stores'],
  'docs/guides/overload.md': ['guide-programs'],
  'docs/guides/sizing.md': ['here'],
  'docs/guides/testing.md': ['guide-programs'],
  'packages/cli/README.md': ['readmes'],
  'packages/http/README.md': ['readmes', 'here'],
  'packages/redis/README.md': ['readmes'],
  'packages/spillway/README.md': ['readmes', 'readmes', 'here'],
  'packages/sql/README.md': ['readmes'],
};

const pages = globSync('{README,CONTRIBUTING,docs/*,docs/guides/*,{apps,packages}/*/README}.md', {
  cwd: root,
}).sort();

/** Blocks of code on a page: their language and text. */
function blocksOf(page: string): readonly { readonly language: string; readonly text: string }[] {
  const found = readFileSync(join(root, page), 'utf8').matchAll(/^```(ts|js)\n([\s\S]*?)^```$/gm);
  return [...found].map(([, language = '', text = '']) => ({ language, text }));
}

describe('code in the documentation', () => {
  it('is run by a test, block by block', () => {
    const counts = Object.fromEntries(
      pages.flatMap((page) => {
        const { length } = blocksOf(page);
        return length > 0 ? [[page, length]] : [];
      }),
    );
    const known = Object.entries(runBy).map(([page, tests]) => [page, tests.length]);
    assert.deepEqual(counts, Object.fromEntries(known));
    const here = Object.entries(runBy).flatMap(([page, tests]) => {
      return tests.flatMap((test, at) => (test === 'here' ? [`${page} ${at + 1}`] : []));
    });
    assert.deepEqual(new Set(here), new Set(Object.keys(pieces)));
  });

  for (const [piece, { before, after = '' }] of Object.entries(pieces)) {
    it(`runs in ${piece}, with what it leaves to the reader`, async () => {
      const [page = '', number] = piece.split(' ');
      const { text, language } = blocksOf(page)[Number(number) - 1] ?? {};
      await using upstream = new Listener(createServer((_req, res) => res.end('here')));
      await upstream.start();
      await using folder = await scratchFolder('test');
      const file = join(folder.path, `main.${language === 'js' ? 'mjs' : 'ts'}`);
      await writeFile(file, [before, text, after, `console.log('done');`].join('\n'));
      const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...inherited } = process.env;
      const env = { ...inherited, UPSTREAM: upstream.url };
      const options = { cwd: folder.path, env, timeout: 200_000 };
      const { stdout } = await promisify(execFile)(process.execPath, [file], options);
      assert.equal(stdout, 'done\n');
    });
  }
});
