import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';

const usage = `usage: npm run release [-- --dry-run]
Makes a release of all packages: the version follows from the changelog's part "Unreleased"
(something removed or changed: major; added: minor; else patch; before 1.0 one step less),
the packages are built, their contents are looked at, and a commit with a tag is made.
--dry-run  shows the version and the contents, and changes nothing but dist/`;

const root = dirname(import.meta.dirname);
const title = '## Unreleased\n';

/** The text of the changelog that no release has had; throws if it names no change. */
export function unreleasedOf(changelog: string): string {
  const [, rest] = changelog.split(title);
  if (rest === undefined) throw new Error(`CHANGELOG.md has no line "${title.trim()}"`);
  const text = rest.split(/^## /m)[0] ?? '';
  if (!/^- /m.test(text)) throw new Error('CHANGELOG.md: nothing is unreleased');
  return text;
}

/** The version after this one, by the kinds of changes. */
export function nextVersion(current: string, unreleased: string): string {
  const [major = 0, minor = 0, patch = 0] = current.split('.').map(Number);
  const has = (kind: string) => new RegExp(`^${kind}:$`, 'm').test(unreleased);
  const isBreaking = has('Removed') || has('Changed');
  if (major > 0 && isBreaking) return `${major + 1}.0.0`;
  if (isBreaking || (major > 0 && has('Added'))) return `${major}.${minor + 1}.0`;
  return `${major}.${minor}.${patch + 1}`;
}

/** Files of a packed package that have no business there. */
export function strangersIn(files: readonly string[]): string[] {
  const known = /^(package\.json|README\.md|LICENSE|template\/.+|[\w./-]+\.(js|d\.ts|css|svg))$/;
  return files.filter((file) => !known.test(file) || /^(?!template\/).*\btest\//.test(file));
}

function run(program: string, ...words: readonly string[]): string {
  return execFileSync(program, words, { cwd: root, encoding: 'utf8' });
}

/** Builds all packages and gives the folders that can be published. */
function build(): string[] {
  run(process.execPath, 'scripts/build.ts');
  const folders = globSync('packages/*/dist/package.json', { cwd: root }).map(dirname).sort();
  for (const folder of folders) {
    const [packed] = JSON.parse(run('npm', 'pack', '--dry-run', '--json', `./${folder}`));
    const files = packed.files.map(({ path }: { readonly path: string }) => path);
    const strangers = strangersIn(files);
    if (strangers.length > 0) throw new Error(`${folder}: must not hold ${strangers.join(', ')}`);
    console.log(`${packed.id}: ${files.length} files, ${packed.unpackedSize} bytes`);
  }
  return folders;
}

/** The text of a package.json with this version of its package and of ours that it needs. */
export function withVersion(manifest: string, version: string): string {
  return manifest
    .replace(/^( {2}"version": ")[^"]+/m, `$1${version}`)
    .replaceAll(/^( {4}"(?:create-)?spillway(?:-\w+)?": "\^?)\d[\d.]*/gm, `$1${version}`);
}

/** Writes the version into every package, and into what they depend on of each other. */
function setVersion(version: string): void {
  const manifests = globSync('{packages,apps,bench,test}/{*/,}package.json', { cwd: root });
  for (const path of manifests.filter((each) => !each.includes('node_modules'))) {
    const text = readFileSync(join(root, path), 'utf8');
    writeFileSync(join(root, path), withVersion(text, version));
  }
  run('npm', 'install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund');
}

function release(isDry: boolean): void {
  const path = join(root, 'CHANGELOG.md');
  const changelog = readFileSync(path, 'utf8');
  const manifest = readFileSync(join(root, 'packages/spillway/package.json'), 'utf8');
  const version = nextVersion(JSON.parse(manifest).version, unreleasedOf(changelog));
  console.log(`The next version is ${version}`);
  if (isDry) {
    build();
    return;
  }
  if (run('git', 'status', '--porcelain') !== '') throw new Error('commit your changes first');
  let folders: string[];
  try {
    writeFileSync(path, changelog.replace(title, `${title}\n## ${version}\n`));
    setVersion(version);
    folders = build();
  } catch (error) {
    // Nothing but what was written above can have changed.
    run('git', 'checkout', '--', '.');
    throw error;
  }
  run('git', 'commit', '--all', '--message', `Release ${version}`);
  run('git', 'tag', `v${version}`);
  console.log('To publish, after the tests of this commit:');
  for (const folder of folders) console.log(`  npm publish ./${relative(process.cwd(), folder)}`);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { 'dry-run': { type: 'boolean', default: false }, help: { type: 'boolean' } },
  });
  if (values.help) console.log(usage);
  else {
    try {
      release(values['dry-run']);
    } catch (error) {
      console.error(`release: ${(error as Error).message}`);
      process.exitCode = 1;
    }
  }
}
