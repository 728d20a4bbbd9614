import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { build as esbuild } from 'esbuild';
import { Listener } from 'spillway/connect';
import { printed } from 'spillway-fixtures/printed';
import { findProgram } from 'spillway-fixtures/requires';
import { build as vite } from 'vite';

const root = dirname(import.meta.dirname);
/** The oldest Node that the packages run on; there is none for every machine. */
const oldNode = join(root, 'test', 'node22', 'node_modules', '.bin', 'node');
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

// Node's own switches, such as the ones of a test runner, must not reach a child.
const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;

/** Runs a program to its end and gives back what it printed; fails with all of that. */
function run(
  cwd: string,
  program: string,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const options = {
    cwd,
    env: { ...env, ...more },
    timeout: 200_000,
    killSignal: 'SIGKILL',
  } as const;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(program, args, options, (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else reject(new Error(`${program} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error }));
  });
  return promise;
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

async function readJson<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, 'utf8'));
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await writeFile(path, JSON.stringify(value));
}

/** The folders of what a package depends on, and so on down: there is no registry in a test. */
async function dependenciesOf(manifest: Manifest): Promise<Readonly<Record<string, string>>> {
  const folders: Record<string, string> = {};
  const add = async ({ dependencies = {} }: Manifest): Promise<void> => {
    for (const name of Object.keys(dependencies)) {
      const folder = join(root, 'node_modules', name);
      if (name in folders || name === 'spillway') continue;
      folders[name] = `file:${folder}`;
      await add(await readJson(join(folder, 'package.json')));
    }
  };
  await add(manifest);
  return folders;
}

/** Packs what was built, and looks at what is in it. */
async function pack(folder: string, cache: string): Promise<string> {
  const [{ filename, files }] = JSON.parse(
    await run(folder, 'npm', ['pack', '--json', '--offline', cache]),
  );
  const names = files.map((file: { path: string }) => file.path);
  const manifest = await readJson<Record<string, unknown>>(join(folder, 'package.json'));
  const told = ['description', 'keywords', 'license', 'engines', 'files', 'sideEffects'];
  if ('exports' in manifest) {
    told.push('types');
    assert.ok(names.includes('index.d.ts'), names.join());
    assert.ok(!names.some((name: string) => /(?<!\.d)\.ts$/.test(name)), names.join());
  }
  assert.ok(names.includes('LICENSE'), names.join());
  assert.deepEqual(
    told.filter((field) => !(field in manifest)),
    [],
    folder,
  );
  assert.ok(!('private' in manifest) && !('devDependencies' in manifest), folder);
  assert.deepEqual(manifest.publishConfig, { access: 'public', provenance: true });
  const ranges = Object.values((manifest.dependencies ?? {}) as Record<string, string>);
  assert.ok(
    ranges.every((range) => range.startsWith('^')),
    ranges.join(),
  );
  return `file:${join(folder, filename)}`;
}

/** As npm would install it, but for its dependencies, some of which come in two versions. */
async function place(project: string, folder: string, cache: string): Promise<void> {
  const manifest = await readJson<Manifest & { readonly name: string }>(
    join(folder, 'package.json'),
  );
  const { name, dependencies, peerDependencies } = manifest;
  const modules = join(project, 'node_modules');
  const archive = (await pack(folder, cache)).replace('file:', '');
  await mkdir(join(modules, name), { recursive: true });
  await run(join(modules, name), 'tar', ['-xzf', archive, '--strip-components=1']);
  const others = Object.keys({ ...dependencies, ...peerDependencies });
  for (const other of others.filter((each) => !/^spillway/.test(each))) {
    const link = join(modules, other);
    await mkdir(dirname(link), { recursive: true });
    if (!existsSync(link)) await symlink(join(root, 'node_modules', other), link);
  }
}

/** Bundles a program as the guide says, by esbuild and by Vite, and runs it by itself. */
async function bundleAndRun(project: string): Promise<void> {
  const entries = {
    everywhere: join(project, 'everywhere.ts'),
    worker: join(project, 'worker.ts'),
    'pool-worker': 'spillway/pool-worker',
    'sqlite-worker': 'spillway/sqlite-worker',
  };
  const byEsbuild = join(dirname(project), 'esbuild');
  await esbuild({
    absWorkingDir: project,
    entryPoints: entries,
    outdir: byEsbuild,
    bundle: true,
    format: 'esm',
    platform: 'node',
  });
  const byVite = join(dirname(project), 'vite');
  await vite({
    root: project,
    logLevel: 'warn',
    ssr: { noExternal: true },
    build: {
      ssr: true,
      outDir: byVite,
      rollupOptions: { input: entries, output: { entryFileNames: '[name].js' } },
    },
  });
  for (const folder of [byEsbuild, byVite]) {
    await writeJson(join(folder, 'package.json'), { type: 'module' });
    assert.match(await run(folder, process.execPath, ['everywhere.js']), /works on/, folder);
  }
}

/** The files of a package that one of them loads, itself among them. */
async function loadedBy(path: string, found = new Set<string>()): Promise<ReadonlySet<string>> {
  if (found.has(path)) return found;
  found.add(path);
  const imports = (await readFile(path, 'utf8')).matchAll(/^(?:import|export)\b.*"(\.\/.+)";$/gm);
  for (const [, file = ''] of imports) await loadedBy(join(dirname(path), file), found);
  return found;
}

/** Makes a release in a copy of the repository, to its end, and takes the packages from there. */
async function rehearse(folder: string): Promise<void> {
  const copy = join(folder, 'copy');
  const told = await run(root, process.execPath, ['scripts/release.ts', '--dry-run', '--in', copy]);
  const [, version = ''] = /^The next version is (\S+)$/m.exec(told) ?? [];
  assert.match(told, /Nothing was sent: all packages can be published\.\n$/);
  assert.equal(await run(copy, 'git', ['tag', '--points-at', 'HEAD']), `v${version}\n`);
  assert.equal(await run(copy, 'git', ['status', '--porcelain']), '');
  const changelog = await readFile(join(copy, 'CHANGELOG.md'), 'utf8');
  assert.ok(changelog.includes(`## Unreleased\n\n## ${version}\n`));
  for (const dist of globSync('{packages,apps}/*/dist', { cwd: copy })) {
    const name = basename(dirname(dist));
    await rename(join(copy, dist), join(folder, name));
    const manifest = await readJson<{ readonly version: string }>(
      join(folder, name, 'package.json'),
    );
    assert.equal(manifest.version, version, name);
  }
}

/** The text with all changes that a guide shows as `diff`. */
function changed(text: string, guide: string): string {
  const blocks = [...guide.matchAll(/^```diff\n([\s\S]*?)^```/gm)];
  assert.ok(blocks.length > 0);
  return blocks.reduce((all, [, block = '']) => {
    const side = (sign: string) =>
      block.replaceAll(new RegExp(`^[${sign}].*\\n`, 'gm'), '').replaceAll(/^[-+ ]/gm, '');
    assert.ok(all.includes(side('+')), block);
    return all.replace(side('+'), side('-'));
  }, text);
}

const flags = ['--offline', '--no-audit', '--no-fund', '--ignore-scripts', '--install-links'];

describe('the published packages', () => {
  let folder = '';
  let cache = '';
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'spillway-pack-'));
    cache = `--cache=${join(folder, 'npm-cache')}`;
    const changelog = await readFile(join(root, 'CHANGELOG.md'), 'utf8');
    const [, unreleased = ''] = changelog.split(/^## .*$/m);
    const hasChanges = /^- /m.test(unreleased);
    if (hasChanges && findProgram('git') !== undefined) await rehearse(folder);
    else await run(root, process.execPath, ['scripts/build.ts', '--out', folder]);
  });
  after(() => rm(folder, { recursive: true }));

  it('are few files: each costs half a millisecond to load', async () => {
    const entries = { redis: 1, cli: 1, sql: 2, spillway: 2, http: 2 };
    for (const [name, most] of Object.entries(entries)) {
      const files = await loadedBy(join(folder, name, 'index.js'));
      assert.ok(files.size <= most, [...files].join());
    }
    for (const thread of ['pool-worker.js', 'sqlite-worker.js']) {
      assert.equal((await loadedBy(join(folder, 'spillway', thread))).size, 1, thread);
    }
  });

  it('install into an empty project, type-check and run there', async () => {
    const project = join(folder, 'project');
    const others = await dependenciesOf(await readJson(join(folder, 'sql', 'package.json')));
    const dependencies = {
      spillway: await pack(join(folder, 'spillway'), cache),
      'spillway-sql': await pack(join(folder, 'sql'), cache),
      ...others,
    };

    await cp(join(root, 'test', 'consumer'), project, { recursive: true });
    await writeJson(join(project, 'package.json'), { private: true, type: 'module', dependencies });
    await run(project, 'npm', ['install', ...flags, cache]);
    await place(project, join(folder, 'http'), cache);
    await place(project, join(folder, 'cli'), cache);
    await writeJson(join(project, 'tsconfig.json'), {
      compilerOptions: {
        module: 'nodenext',
        target: 'esnext',
        strict: true,
        skipLibCheck: false,
        noEmit: true,
        allowImportingTsExtensions: true,
        types: ['node'],
      },
    });
    await run(project, process.execPath, [tsc, '-p', project]);
    assert.match(await run(project, process.execPath, ['main.ts']), /the packed package works/);
    assert.match(await run(project, process.execPath, ['database.ts']), /packed database works/);
    assert.match(await run(project, process.execPath, ['server.ts']), /packed server works/);
    assert.match(await run(project, process.execPath, ['program.ts', 'config']), /port +1234/);
    await run(project, process.execPath, ['everywhere.ts']);
    if (existsSync(oldNode)) {
      assert.match(await run(project, oldNode, ['everywhere.ts']), /works on v22\./);
      for (const name of ['spillway-http', 'spillway-http/kit', 'spillway-sql', 'spillway-cli']) {
        await run(project, oldNode, ['--input-type=module', '-e', `import '${name}';`]);
      }
    }
    await bundleAndRun(project);
    const lock: { packages: object } = await readJson(join(project, 'package-lock.json'));
    const installed = Object.keys(dependencies).map((name) => `node_modules/${name}`);
    assert.deepEqual(new Set(Object.keys(lock.packages)), new Set(['', ...installed]));
  });

  it('have ingest as a command and as a library', async () => {
    const project = join(folder, 'harvest');
    await mkdir(project);
    for (const name of ['spillway', 'cli', 'http', 'redis', 'sql', 'ingest']) {
      await place(project, join(folder, name), cache);
    }
    const program = join(project, 'node_modules', 'spillway-ingest', 'commands', 'main.js');
    const ingest = (...words: readonly string[]): Promise<string> =>
      run(project, process.execPath, [program, ...words]);
    const words = ['exchange', 'BTC-USD', '--port', '0', '--trades', '3000', '--rate', '50'];
    const exchange = spawn(process.execPath, [program, ...words], {
      cwd: project,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await using _exchange = {
      async [Symbol.asyncDispose]() {
        const exited = once(exchange, 'exit');
        exchange.kill('SIGTERM');
        await exited;
      },
    };
    const [url] = await printed(exchange, /http:\S+:\d+/);
    const there = ['--exchange', 'simulated', '--base-url', url];
    assert.match(await ingest('run', 'BTC-USD', ...there), /3,000 trades in \d+ requests/);
    assert.match(await ingest('verify', ...there), /nothing is missing/);
    assert.match(await ingest('query', 'SELECT count(*) AS n FROM trades'), /^3,000$/m);
    const readme = await readFile(join(folder, 'ingest', 'README.md'), 'utf8');
    const [, block = ''] = /^```ts\n([\s\S]*?)^```$/m.exec(readme) ?? [];
    const declared = `import type { Declaration } from 'spillway-ingest';
      export const api: Declaration = {
        name: 'my-api', address: 'http://127.0.0.1:1/records', key: 'id',
        pages: { by: 'page', page: 'page', size: 100 },
      };`;
    await writeFile(join(project, 'read.mts'), `${block}${declared}`);
    const told = await run(project, process.execPath, ['read.mts'], { INGEST_BASE_URL: url });
    assert.match(told, /trades: 3000,/);
    const typeRoots = join(root, 'node_modules', '@types');
    const checks = ['--module', 'nodenext', '--target', 'esnext', '--strict', '--noEmit'];
    const types = ['--types', 'node', '--typeRoots', typeRoots, '--skipLibCheck'];
    await run(project, process.execPath, [tsc, ...checks, ...types, 'read.mts']);
  });

  it('make a service that is tested, changed and started as the guide says', async () => {
    const guide = await readFile(join(root, 'docs', 'guides', 'start.md'), 'utf8');
    const [, block = ''] = /^```sh\n(npm run build[\s\S]*?)^```$/m.exec(guide) ?? [];
    // Each is done below, with the packages that were built and packed, in another folder.
    assert.deepEqual(block.trim().split(/\n| && /), [
      'npm run build -- --out ../built',
      'npx create-spillway ../my-service',
      'cd ../my-service',
      'npm install ../built/spillway',
      'npm test',
      'npm start',
    ]);
    const creator = await pack(join(folder, 'create'), cache);
    const npx = ['exec', '--yes', '--offline', cache, `--package=${creator}`, '--'];
    const told = await run(folder, 'npm', [...npx, 'create-spillway', 'my-quotes']);
    assert.match(told, /cd my-quotes\n {2}npm install\n/);
    const project = join(folder, 'my-quotes');
    assert.equal(await readFile(join(project, '.gitignore'), 'utf8'), 'node_modules\n');
    const path = join(project, 'package.json');
    // There is no registry here: what it depends on comes from this repository.
    const { devDependencies, ...manifest } = await readJson<Record<string, unknown>>(path);
    assert.equal(manifest.name, 'my-quotes');
    const dependencies = { spillway: await pack(join(folder, 'spillway'), cache) };
    await writeJson(path, { ...manifest, dependencies });
    await run(project, 'npm', ['install', ...flags, cache]);
    const typeRoots = join(root, 'node_modules', '@types');
    const source = join(project, 'src', 'service.ts');
    await writeFile(source, changed(await readFile(source, 'utf8'), guide));
    await run(project, process.execPath, [tsc, '--typeRoots', typeRoots]);
    assert.match(await run(project, 'npm', ['test']), /^# fail 0|^ℹ fail 0/m);

    await using upstream = new Listener(createServer((_req, res) => res.end('four and 20 words')));
    await upstream.start();
    const { start } = manifest.scripts as Readonly<Record<string, string>>;
    const [program, ...words] = String(start).split(' ');
    assert.equal(program, 'node');
    const child = spawn(process.execPath, words, {
      cwd: project,
      env: { ...env, PORT: '0', UPSTREAM: upstream.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(child, 'exit');
    const [url] = await printed(child, /http:\S+/);
    assert.deepEqual(await (await fetch(`${url}/words/any`)).json(), { words: 4 });
    assert.deepEqual(await (await fetch(`${url}/hello`)).json(), { hello: 'world' });
    assert.match(
      await (await fetch(`${url}/metrics`)).text(),
      /finished_total\{lane="greetings"\} 1/,
    );
    child.kill('SIGTERM');
    assert.deepEqual(await exited, [0, null]);
  });
});
