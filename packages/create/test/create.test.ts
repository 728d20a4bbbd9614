import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempDisposableSync,
  readdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { Listener } from 'spillway/connect';

const program = resolve(import.meta.dirname, '../src/create.ts');

function create(cwd: string, ...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...words], {
    cwd,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

describe('npm create spillway', () => {
  it('makes a service in a new folder or an empty one, and says how to go on', () => {
    using home = mkdtempDisposableSync(join(tmpdir(), 'create-'));
    mkdirSync(join(home.path, 'here'));
    const { status, stdout } = create(home.path, 'there');
    assert.equal(status, 0);
    assert.match(stdout, /Made there\. Next:\n\n {2}cd there\n {2}npm install\n/);
    assert.equal(create(join(home.path, 'here'), '.').status, 0);
    const files = (name: string) => readdirSync(join(home.path, name)).sort();
    assert.deepEqual(files('here'), files('there'));
  });

  it('refuses a folder in which something is, and changes nothing there', () => {
    using home = mkdtempDisposableSync(join(tmpdir(), 'create-'));
    const full = join(home.path, 'full');
    mkdirSync(full);
    writeFileSync(join(full, 'notes.txt'), 'mine');
    const { status, stderr } = create(home.path, 'full');
    assert.equal(status, 2);
    assert.match(stderr, /create-spillway: \S+ is there already, and is not an empty folder/);
    assert.deepEqual(readdirSync(full), ['notes.txt']);
  });

  it('asks for a folder if the name is empty', () => {
    using home = mkdtempDisposableSync(join(tmpdir(), 'create-'));
    const { status, stderr } = create(home.path, '');
    assert.equal(status, 2);
    assert.match(stderr, /^create-spillway: name one folder\n/);
  });

  it('says what is in the way of a folder that cannot be made', () => {
    using home = mkdtempDisposableSync(join(tmpdir(), 'create-'));
    writeFileSync(join(home.path, 'file'), 'mine');
    symlinkSync(join(home.path, 'nowhere'), join(home.path, 'link'));
    for (const [name, reason] of [
      ['file', 'a file has this name'],
      ['link', 'a link to nothing is in its path'],
      ['file/below', 'a file is in its path'],
      ['link/below', 'a link to nothing is in its path'],
    ] as const) {
      const { status, stderr } = create(home.path, name);
      assert.equal(status, 2);
      assert.ok(stderr.includes(`${join(home.path, name)} cannot be made: ${reason}\n`), stderr);
      assert.doesNotMatch(stderr, /at .*:\d+:\d+/);
    }
    assert.deepEqual(readdirSync(home.path).sort(), ['file', 'link']);
  });

  it('writes the way into the folder as a shell takes it', () => {
    using home = mkdtempDisposableSync(join(tmpdir(), 'create-'));
    for (const parent of ["it's $HOME", '-of mine']) {
      const { stdout } = create(home.path, `./${parent}/there`);
      const [, way = ''] = /^ {2}(cd .*)$/m.exec(stdout) ?? [];
      const options = { cwd: home.path, encoding: 'utf8' } as const;
      assert.equal(
        spawnSync('/bin/sh', ['-c', `${way} && pwd -P`], options).stdout.trim(),
        realpathSync(join(home.path, parent, 'there')),
      );
    }
  });

  it('refuses a name that no package may have', () => {
    using home = mkdtempDisposableSync(join(tmpdir(), 'create-'));
    for (const name of ['My Service', '.hidden', 'x'.repeat(101)]) {
      const { status, stderr } = create(home.path, name);
      assert.equal(status, 2);
      assert.match(stderr, /is no name for a package: use at most 100 small letters, digits/);
    }
    for (const name of ['node_modules', 'favicon.ico', 'fs', 'worker_threads', 'spillway']) {
      const { status, stderr } = create(home.path, name);
      assert.equal(status, 2);
      assert.match(stderr, /is no name for a package: it is taken by Node, npm or Spillway/);
    }
    assert.deepEqual(readdirSync(home.path), []);
  });

  it('asks for exactly one folder', () => {
    for (const words of [[], ['a', 'b'], ['--force']]) {
      const { status, stderr } = create(tmpdir(), ...words);
      assert.equal(status, 2);
      assert.match(stderr, /name one folder\n\nusage: npm create spillway <folder>/);
    }
    assert.match(create(tmpdir(), '--help').stdout, /^usage: npm create spillway/);
  });

  it('makes a service that refuses wrong settings and a taken port in one sentence', async () => {
    await using taken = new Listener(createServer());
    await taken.start();
    const main = resolve(import.meta.dirname, '../template/src/main.ts');
    const start = (settings: NodeJS.ProcessEnv) => {
      const env = { ...process.env, PORT: '0', ...settings };
      const options = { env, encoding: 'utf8', timeout: 240_000 } as const;
      const { status, stderr } = spawnSync(process.execPath, [main], options);
      return [status, stderr];
    };
    const { port } = new URL(taken.url);
    assert.deepEqual(start({ PORT: 'abc' }), [
      1,
      "PORT: must be a number from 0 to 65535, got 'abc'\n",
    ]);
    assert.deepEqual(start({ UPSTREAM: 'abc' }), [1, "UPSTREAM: must be an address, got 'abc'\n"]);
    const used = `listen EADDRINUSE: address already in use 127.0.0.1:${port}`;
    assert.deepEqual(start({ PORT: port }), [
      1,
      `SERVICE_START: part "http" failed to start: ${used}\n`,
    ]);
  });
});
