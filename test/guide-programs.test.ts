import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { scratchFolder } from 'spillway-fixtures/scratch';
import { drawAll } from '../scripts/docs/pictures.ts';

const root = dirname(import.meta.dirname);
/** Guides whose programs serve or are fragments, and the tests that look at them. */
const elsewhere = new Set([
  'a-store-of-your-own.md',
  'adopt.md',
  'from-fishtest.md',
  'many-machines.md',
  'sizing.md',
  'your-api-in-ten-minutes.md',
]);
const guides = globSync('docs/guides/*.md', { cwd: root }).sort();
const parts = globSync('docs/parts/*.md', { cwd: root }).sort();

/** Programs of a guide; the code of a worker goes with the program after it. */
function programsOf(
  guide: string,
): { readonly main: string; readonly worker: string | undefined }[] {
  const text = readFileSync(join(root, guide), 'utf8');
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
  const isWorker = (block: string | undefined) => block?.startsWith('// worker.ts') === true;
  return blocks.flatMap((main, at) => {
    const before = blocks[at - 1];
    return isWorker(main) ? [] : [{ main, worker: isWorker(before) ? before : undefined }];
  });
}

describe('every guide', () => {
  for (const guide of [...guides, ...parts]) {
    it(`${guide} has links that lead somewhere`, () => {
      const text = readFileSync(join(root, guide), 'utf8');
      const links = [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, to = '']) => to);
      const broken = links.filter(
        (to) => globSync(join(dirname(guide), to), { cwd: root })[0] === undefined,
      );
      assert.deepEqual(broken, []);
    });

    if (elsewhere.has(basename(guide)) || parts.includes(guide)) continue;
    for (const [at, { main, worker }] of programsOf(guide).entries()) {
      it(`${guide} has a program ${at + 1} that runs as it is written`, async () => {
        await using folder = await scratchFolder('test');
        if (worker !== undefined) await writeFile(join(folder.path, 'worker.ts'), worker);
        const file = join(folder.path, 'main.ts');
        await writeFile(file, main);
        const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
        const options = { cwd: root, env, timeout: 200_000, killSignal: 'SIGKILL' } as const;
        const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], options);
        assert.notEqual(stdout.trim(), '');
        assert.equal(stderr, '');
      });
    }
  }
});

describe('the page of each part', () => {
  const pictures = drawAll();

  it('is named by the list of parts, and each has a picture', () => {
    const list = readFileSync(join(root, 'docs/guides/parts.md'), 'utf8');
    const names = parts.map((page) => basename(page, '.md'));
    assert.deepEqual(
      names.filter((name) => !list.includes(`(../parts/${name}.md)`)),
      [],
    );
    assert.deepEqual(new Set(pictures.keys()), new Set(names));
  });

  for (const page of parts) {
    it(`${page} has the picture that is drawn for it, and an example that a test runs`, () => {
      const text = readFileSync(join(root, page), 'utf8');
      const name = basename(page, '.md');
      const picture = readFileSync(join(root, `docs/images/parts/${name}.svg`), 'utf8');
      assert.ok(text.includes(`](../images/parts/${name}.svg)`));
      assert.equal(picture, pictures.get(name), 'node scripts/docs/pictures.ts');
      const [, example = '', block] =
        /`npx node (examples\/[\w-]+\.ts)`[\s\S]*?^```ts\n([\s\S]*?)^```$/m.exec(text) ?? [];
      const code = readFileSync(join(root, example), 'utf8');
      assert.equal(block, code, `copy ${example} into ${page}`);
    });
  }
});
