import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const usage = `usage: npm run release [-- --dry-run [--in <folder>]]
Makes a release of all packages: the version follows from the changelog's part "Unreleased"
(something removed or changed: major; added: minor; else patch; before 1.0 one step less),
the packages are built, their contents are looked at, and a commit with a tag is made.
--dry-run  does all of that in a copy of the repository, and publishes from there with
           npm publish --dry-run; changes nothing here
--in       the empty folder of that copy, which is then kept (default: a temporary one)`;

const root = dirname(import.meta.dirname);
const title = '## Unreleased\n';

/** The unreleased part of the changelog; throws if it lists no change. */
export function unreleasedOf(changelog: string): string {
  const [, rest] = changelog.split(title);
  if (rest === undefined) throw new Error(`CHANGELOG.md has no line "${title.trim()}"`);
  const text = rest.split(/^## /m)[0] ?? '';
  if (!/^- /m.test(text)) throw new Error('CHANGELOG.md: nothing is unreleased');
  return text;
}

/** The version of the next release: the first has that of the manifests, others follow by kind. */
export function nextVersion(current: string, changelog: string): string {
  const unreleased = unreleasedOf(changelog);
  if (!/^## \d/m.test(changelog)) return current;
  const [major = 0, minor = 0, patch = 0] = current.split('.').map(Number);
  const has = (kind: string) => new RegExp(`^${kind}:$`, 'm').test(unreleased);
  const isBreaking = has('Removed') || has('Changed');
  if (major > 0 && isBreaking) return `${major + 1}.0.0`;
  if (isBreaking || (major > 0 && has('Added'))) return `${major}.${minor + 1}.0`;
  return `${major}.${minor}.${patch + 1}`;
}

/** Files of a packed package that do not belong there. */
export function strangersIn(files: readonly string[]): string[] {
  const known =
    /^(package\.json|README\.md|LICENSE|(template|sources)\/.+|[\w./-]+\.(js|d\.ts|css|svg))$/;
  return files.filter((file) => !known.test(file) || /^(?!template\/).*\btest\//.test(file));
}

function run(program: string, ...words: readonly string[]): string {
  return execFileSync(program, words, { cwd: root, encoding: 'utf8' });
}

/** Builds all packages and gives the folders that can be published. */
function build(): string[] {
  run(process.execPath, 'scripts/build.ts');
  const folders = globSync('{packages,apps}/*/dist/package.json', { cwd: root })
    .map(dirname)
    .sort();
  // All others depend on it.
  folders.sort((a, b) => Number(b.includes('/spillway/')) - Number(a.includes('/spillway/')));
  for (const folder of folders) {
    const [packed] = JSON.parse(run('npm', 'pack', '--dry-run', '--json', `./${folder}`));
    const files = packed.files.map(({ path }: { readonly path: string }) => path);
    const strangers = strangersIn(files);
    if (strangers.length > 0) throw new Error(`${folder}: must not hold ${strangers.join(', ')}`);
    console.log(`${packed.id}: ${files.length} files, ${packed.unpackedSize} bytes`);
  }
  return folders;
}

/** A package.json with this version for the package and for its dependencies of this repository. */
export function withVersion(manifest: string, version: string): string {
  return manifest
    .replace(/^( {2}"version": ")[^"]+/m, `$1${version}`)
    .replaceAll(/^( {4}"(?:create-)?spillway(?:-\w+)?": "\^?)\d[\d.]*/gm, `$1${version}`);
}

/** Writes the version into every package, and into their dependencies on each other. */
function setVersion(version: string): void {
  const manifests = globSync('{packages,apps,bench,test}/{*/,}package.json', { cwd: root });
  for (const path of manifests.filter((each) => !each.includes('node_modules'))) {
    const text = readFileSync(join(root, path), 'utf8');
    writeFileSync(join(root, path), withVersion(text, version));
  }
  // Only versions of our own packages change, so npm needs no registry.
  const flags = ['--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund', '--offline'];
  run('npm', 'install', ...flags);
}

function release(): void {
  const path = join(root, 'CHANGELOG.md');
  const changelog = readFileSync(path, 'utf8');
  const manifest = readFileSync(join(root, 'packages/spillway/package.json'), 'utf8');
  const version = nextVersion(JSON.parse(manifest).version, changelog);
  console.log(`The next version is ${version}`);
  if (run('git', 'status', '--porcelain') !== '') throw new Error('commit your changes first');
  let folders: string[];
  try {
    writeFileSync(path, changelog.replace(title, `${title}\n## ${version}\n`));
    setVersion(version);
    folders = build();
  } catch (error) {
    // The tree was clean, so this undoes only the writes above.
    run('git', 'checkout', '--', '.');
    throw error;
  }
  run('git', 'commit', '--all', '--message', `Release ${version}`);
  run('git', 'tag', `v${version}`);
  console.log('To publish, after the tests of this commit:');
  for (const folder of folders) console.log(`  npm publish ./${relative(process.cwd(), folder)}`);
}

/** Releases a copy of this repository as it is now, and publishes from it as a dry run. */
function rehearse(copy: string): void {
  const left = new Set(['.git', 'node_modules', 'dist', 'scratch', 'data']);
  // A folder `data` deeper down is a part of a package.
  const isTaken = (path: string) =>
    !left.has(basename(path)) || (basename(path) === 'data' && dirname(path) !== root);
  cpSync(root, copy, { recursive: true, filter: isTaken });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  const who = { NAME: 'Release rehearsal', EMAIL: 'rehearsal@localhost' };
  const names = Object.entries(who).flatMap(([field, value]) => [
    [`GIT_AUTHOR_${field}`, value],
    [`GIT_COMMITTER_${field}`, value],
  ]);
  const env = { ...process.env, ...Object.fromEntries(names) };
  const inCopy = (program: string, ...words: readonly string[]) =>
    execFileSync(program, words, { cwd: copy, env, stdio: ['ignore', 'pipe', 'inherit'] });
  inCopy('git', 'init', '--quiet');
  appendFileSync(join(copy, '.git/info/exclude'), 'node_modules\n');
  inCopy('git', 'add', '--all');
  inCopy('git', 'commit', '--quiet', '--message', 'All there is');
  process.stdout.write(inCopy(process.execPath, 'scripts/release.ts'));
  for (const folder of globSync('{packages,apps}/*/dist', { cwd: copy }).sort()) {
    inCopy('npm', 'publish', '--dry-run', '--offline', '--tag', 'latest', `./${folder}`);
  }
  console.log('Nothing was sent: all packages can be published.');
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      'dry-run': { type: 'boolean', default: false },
      in: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) console.log(usage);
  else {
    const temporary = values.in ?? mkdtempSync(join(tmpdir(), 'spillway-release-'));
    try {
      if (values['dry-run']) rehearse(resolve(temporary));
      else release();
    } catch (error) {
      console.error(`release: ${(error as Error).message}`);
      process.exitCode = 1;
    } finally {
      if (values.in === undefined) rmSync(temporary, { recursive: true, force: true });
    }
  }
}
