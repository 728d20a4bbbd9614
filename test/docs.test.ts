import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';

const root = dirname(import.meta.dirname);
/** Interfaces that stand beside their class, whose doc comment explains them. */
const beside = /(?:Options|Stats)$/;

/** Options that mean the same everywhere, or say all by their name. */
const plain = new Set(['body', 'clock', 'label', 'name', 'random', 'signal', 'title', 'value']);

/** Options of a declaration that have no doc comment. */
function bareOptions(declaration: string): string[] {
  const [, owner] = /^export interface (\w+Options)\b/.exec(declaration) ?? [];
  if (owner === undefined) return [];
  const lines = declaration.split('\n');
  return lines.flatMap((line, at) => {
    const [, option = ''] = /^ {4}(?:readonly )?(\w+)\??:/.exec(line) ?? [];
    const isTold = option === '' || plain.has(option) || lines[at - 1]?.endsWith('*/') === true;
    return isTold ? [] : [`${owner}.${option}`];
  });
}

describe('npm run docs', () => {
  it('makes a site whose links lead somewhere, and every exported name is explained', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-docs-'));
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    const words = ['scripts/docs.ts', '--out', folder.path];
    const options = { cwd: root, env, timeout: 800_000 };
    const { stdout } = await promisify(execFile)(process.execPath, words, options);
    assert.match(stdout, /pages in /);
    const pages = globSync('**/*.html', { cwd: folder.path });
    const broken: string[] = [];
    const foreign: string[] = [];
    const bare: string[] = [];
    for (const page of pages) {
      const text = readFileSync(join(folder.path, page), 'utf8');
      for (const [, name = '', to = ''] of text.matchAll(/ (href|src)="([^"#]+)/g)) {
        if (!/^[a-z]+:/.test(to)) {
          if (!existsSync(join(folder.path, dirname(page), to))) broken.push(`${page}: ${to}`);
        } else if (name === 'src') foreign.push(`${page}: ${to}`);
      }
      for (const [, to = '', id] of text.matchAll(/ href="(?![a-z]+:)([^"#]*)#([^"]+)"/g)) {
        const target = to === '' ? page : join(dirname(page), to);
        const file = join(folder.path, target);
        const isThere = existsSync(file) && readFileSync(file, 'utf8').includes(`id="${id}"`);
        if (!isThere) broken.push(`${page}: ${to}#${id}`);
      }
      if (!page.startsWith('reference/')) continue;
      const names = text.matchAll(/<h3 id="[^"]*">(\w+)<\/h3>\s*<pre/g);
      for (const [, name = ''] of names) if (!beside.test(name)) bare.push(`${page}: ${name}`);
      const blocks = [...text.matchAll(/<pre[^>]*><code[^>]*>([^<]*)<\/code>/g)];
      bare.push(...blocks.flatMap(([, block = '']) => bareOptions(block)));
    }
    assert.deepEqual(broken, []);
    assert.deepEqual(foreign, [], 'asked of another site');
    assert.deepEqual(bare, [], 'exported without a doc comment, or an option without one');
    const parts = readFileSync(join(folder.path, 'docs/guides/parts.html'), 'utf8');
    assert.match(parts, /href="..\/parts\/lane.html"/);
    const lane = readFileSync(join(folder.path, 'docs/parts/lane.html'), 'utf8');
    assert.match(lane, /href="..\/..\/reference\/spillway.html#lane"/);
    const found = pages.filter((page) => /^docs\/(guides|parts)\//.test(page));
    assert.equal(found.length, globSync('docs/{guides,parts}/*.md', { cwd: root }).length);
  });
});
