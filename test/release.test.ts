import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { isPermissive, noticePage, noticesOf } from '../scripts/notices.ts';
import { nextVersion, strangersIn, unreleasedOf, withVersion } from '../scripts/release.ts';

const root = dirname(import.meta.dirname);
const changelog = (text: string) => `# Changelog\n\n## Unreleased\n${text}\n## 0.1.0\n\n- First.\n`;

describe('a release', () => {
  it('is refused without a change since the last', () => {
    assert.throws(() => unreleasedOf(changelog('')), /nothing is unreleased/);
    assert.throws(() => unreleasedOf(changelog('\n### spillway\n\nAdded:\n')), /nothing/);
    assert.throws(() => unreleasedOf('# Changelog\n'), /has no line/);
    assert.match(unreleasedOf(changelog('\nFixed:\n\n- One.\n')), /One\.\n\n$/);
  });

  it('takes its version from the kinds of changes', () => {
    const fixed = '\nFixed:\n\n- One.\n';
    const added = `\nAdded:\n\n- Two.\n${fixed}`;
    const removed = `${added}\nRemoved:\n\n- Three.\n`;
    const after = (version: string) =>
      [fixed, added, removed].map((text) => nextVersion(version, changelog(text)));
    assert.deepEqual(after('0.1.4'), ['0.1.5', '0.1.5', '0.2.0']);
    assert.deepEqual(after('1.2.3'), ['1.2.4', '1.3.0', '2.0.0']);
    assert.equal(nextVersion('0.1.0', `# Changelog\n\n## Unreleased\n${added}`), '0.1.0');
  });

  it('changes versions in the manifests, and nothing else', () => {
    const manifest = (version: string) => {
      const bin = { 'create-spillway': './src/create.ts' };
      const dependencies = { spillway: `^${version}`, 'spillway-http': version, ajv: '^8.1.0' };
      return JSON.stringify({ name: 'create-spillway', version, bin, dependencies }, undefined, 2);
    };
    assert.equal(withVersion(manifest('0.1.0'), '0.2.0'), manifest('0.2.0'));
  });

  it('has no files that nobody needs', () => {
    const fine = ['package.json', 'README.md', 'LICENSE', 'index.js', 'base/clock.d.ts'];
    assert.deepEqual(strangersIn([...fine, 'browser/kit.css', 'template/src/main.ts']), []);
    const wrong = ['src/index.ts', 'test/gate.test.js', '.env', 'data/app.db'];
    assert.deepEqual(strangersIn([...fine, ...wrong]), wrong);
  });

  it('depends only on packages with permissive licences, all of them named', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
    const notices = noticesOf(lock);
    assert.ok(notices.some(({ name }) => name === 'fastify'));
    assert.deepEqual(
      notices.filter(({ license }) => !isPermissive(license)),
      [],
    );
    const page = readFileSync(join(root, 'docs', 'third-party.md'), 'utf8');
    assert.equal(page, noticePage(notices), 'run: node scripts/notices.ts');
  });

  it('has READMEs whose links work from the registry', () => {
    const readmes = globSync('packages/*/README.md', { cwd: root });
    const relative = readmes.flatMap((path) => {
      const links = readFileSync(join(root, path), 'utf8').matchAll(/\]\((?!https?:|#)([^)]+)\)/g);
      return [...links].map(([, to]) => `${path}: ${to}`);
    });
    assert.deepEqual(relative, []);
  });
});
