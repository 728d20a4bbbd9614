import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';

const root = dirname(import.meta.dirname);
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

/** Runs a program to its end and gives back what it printed; fails with all of that. */
function run(cwd: string, program: string, args: readonly string[]): Promise<string> {
  // Node's own switches, such as the ones of a test runner, must not reach the child.
  const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
  const options = { cwd, env, timeout: 60_000, killSignal: 'SIGKILL' } as const;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(program, args, options, (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else reject(new Error(`${program} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error }));
  });
  return promise;
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await writeFile(path, JSON.stringify(value));
}

describe('the published package', () => {
  it('installs into an empty project, type-checks and runs there', {
    timeout: 120_000,
  }, async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-pack-'));
    const project = join(folder.path, 'project');
    const cache = `--cache=${join(folder.path, 'npm-cache')}`;
    await run(root, process.execPath, ['scripts/build.ts', '--out', folder.path]);
    const packed = join(folder.path, 'spillway');
    const report = await run(packed, 'npm', ['pack', '--json', '--offline', cache]);
    const [{ filename, files }] = JSON.parse(report);
    const names = files.map((file: { path: string }) => file.path);
    assert.ok(names.includes('LICENSE') && names.includes('index.d.ts'), names.join());
    assert.ok(!names.some((name: string) => /(?<!\.d)\.ts$/.test(name)), names.join());

    await cp(join(root, 'test', 'consumer'), project, { recursive: true });
    await writeJson(join(project, 'package.json'), { private: true, type: 'module' });
    const flags = ['--offline', '--no-audit', '--no-fund', '--ignore-scripts', cache];
    await run(project, 'npm', ['install', ...flags, join(packed, filename)]);
    await writeJson(join(project, 'tsconfig.json'), {
      compilerOptions: {
        module: 'nodenext',
        target: 'esnext',
        strict: true,
        skipLibCheck: false,
        noEmit: true,
        allowImportingTsExtensions: true,
        types: ['node'],
        typeRoots: [join(root, 'node_modules', '@types')],
      },
    });
    await run(project, process.execPath, [tsc, '-p', project]);
    assert.match(await run(project, process.execPath, ['main.ts']), /the packed package works/);
    const lock = await readFile(join(project, 'package-lock.json'), 'utf8');
    assert.deepEqual(Object.keys(JSON.parse(lock).packages), ['', 'node_modules/spillway']);
  });
});
