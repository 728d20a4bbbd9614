import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { transformSync } from 'esbuild';
import { type GetModuleInfo, rollup } from 'rollup';

const usage = `usage: npm run build [-- --out <folder>]
Makes each package that has a tsconfig.build.json ready to publish: in its own dist/,
or in <folder>/<package> with --out.`;

const root = dirname(import.meta.dirname);
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

interface Manifest {
  readonly exports?: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
  /** True in the repository, whose sources run only there; left out of the published manifest. */
  readonly private?: unknown;
  readonly scripts?: unknown;
  readonly sideEffects?: unknown;
  readonly devDependencies?: unknown;
}

/** The Node that published packages and apps need; the repository installs on an older one. */
const engines = { packages: { node: '>=22.12' }, apps: { node: '>=24.12' } };
/** Folders that are published as they are. */
const copied = ['template', 'sources'];
const files = ['**/*.{js,d.ts,css,svg}', ...copied];

/** The main file of a published command; the one named in the repository runs on any Node. */
const program = './src/commands/main.ts';

/** The path in the published package of a source file, without its ending. */
function builtPath(path: string): string {
  return path.replace('./src/', './').replace(/\.ts$/, '');
}

/**
 * Bundles a package: one file for each entry, and one, `shared.js`, for the modules that several
 * entries need, so that these have the same classes and symbols. A worker thread shares nothing
 * with them, and its entry is a file by itself. As 25 files it took 35 ms of CPU to import
 * `spillway`, as two it takes 23 (2026-11).
 */
async function bundle(folder: string, out: string, entries: readonly string[]): Promise<void> {
  const isThread = (path: string) => path.endsWith('-worker.ts');
  const groups = entries.filter(isThread).map((path) => [path]);
  for (const group of [entries.filter((path) => !isThread(path)), ...groups]) {
    const input = group.map((path) => [builtPath(path).slice(2), join(folder, path)]);
    const bundled = await rollup({
      input: Object.fromEntries(input),
      external: (id) => !/^[./]/.test(id),
      plugins: [{ name: 'typescript', transform: stripped, renderChunk: lowered }],
    });
    await bundled.write({
      dir: out,
      format: 'es',
      hoistTransitiveImports: false,
      chunkFileNames: ({ isDynamicEntry }) => (isDynamicEntry ? '[name].js' : 'shared.js'),
      manualChunks: (path, { getModuleInfo }) =>
        entriesOf(path, getModuleInfo).size > 1 ? 'shared' : undefined,
    });
    await bundled.close();
  }
}

const stripped = (code: string) => transformSync(code, { loader: 'ts', target: 'esnext' }).code;
const lowered = (code: string) =>
  transformSync(code, { target: 'node22', minifySyntax: true, legalComments: 'none' }).code;

/** The entries of a bundle that load a module. */
function entriesOf(
  path: string,
  info: GetModuleInfo,
  seen: Set<string> = new Set(),
  found: Set<string> = new Set(),
): ReadonlySet<string> {
  if (seen.has(path)) return found;
  seen.add(path);
  const { isEntry = false, importers = [] } = info(path) ?? {};
  if (isEntry) found.add(path);
  for (const importer of importers) entriesOf(importer, info, seen, found);
  return found;
}

/** Compiles one package and writes beside its files what npm publishes. */
async function build(folder: string, out: string): Promise<void> {
  rmSync(out, { recursive: true, force: true });
  const config = join(folder, 'tsconfig.build.json');
  const types = ['-p', config, '--outDir', out, '--emitDeclarationOnly'];
  execFileSync(process.execPath, [tsc, ...types], { stdio: 'inherit' });
  const source = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
  const isApp = basename(dirname(folder)) === 'apps';
  const { exports: entries = {} } = source;
  const programs = Object.fromEntries(
    Object.entries(source.bin ?? {}).map(([name, path]) => [name, isApp ? program : path]),
  );
  await bundle(folder, out, [...Object.values(entries), ...Object.values(programs)]);
  // Files for browsers are copied as they are: the bundle reads them at run time.
  for (const path of globSync('src/**/*.{js,css,svg}', { cwd: folder })) {
    const copy = join(out, 'browser', basename(path));
    mkdirSync(dirname(copy), { recursive: true });
    copyFileSync(join(folder, path), copy);
  }
  for (const name of copied.filter((each) => existsSync(join(folder, each)))) {
    cpSync(join(folder, name), join(out, name), { recursive: true });
  }
  const { private: isPrivate, scripts, devDependencies, ...manifest } = source;
  const exports: Record<string, { types: string; default: string }> = {};
  for (const [name, path] of Object.entries(entries)) {
    const built = builtPath(path);
    exports[name] = { types: `${built}.d.ts`, default: `${built}.js` };
  }
  const bin: Record<string, string> = {};
  for (const [name, path] of Object.entries(programs)) bin[name] = `${builtPath(path)}.js`;
  const sideEffects =
    Array.isArray(manifest.sideEffects) &&
    Object.values(exports)
      .map((entry) => entry.default)
      .filter((path) => path.endsWith('-worker.js'));
  const published = {
    ...manifest,
    types: exports['.']?.types,
    sideEffects,
    exports: source.exports && exports,
    bin: source.bin && bin,
    engines: engines[isApp ? 'apps' : 'packages'],
    files,
    publishConfig: { access: 'public', provenance: true },
  };
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  for (const file of ['README.md', 'LICENSE']) {
    const source = [folder, root].map((place) => join(place, file)).find(existsSync);
    if (source !== undefined) copyFileSync(source, join(out, file));
  }
}

const { values } = parseArgs({
  options: { out: { type: 'string' }, help: { type: 'boolean', short: 'h', default: false } },
});
if (values.help) {
  console.log(usage);
} else {
  for (const config of globSync('{packages,apps}/*/tsconfig.build.json', { cwd: root }).sort()) {
    const folder = join(root, dirname(config));
    const out = values.out ? resolve(values.out, basename(folder)) : join(folder, 'dist');
    await build(folder, out);
    console.log(`built ${relative(process.cwd(), out)}`);
  }
}
