import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { findBrowser, packagedBrowser } from 'spillway-browser';

describe('a browser', () => {
  it('is the first on the PATH that can be run, the lightest before others', async () => {
    await using first = await mkdtempDisposable(join(tmpdir(), 'spillway-browser-'));
    await using second = await mkdtempDisposable(join(tmpdir(), 'spillway-browser-'));
    await writeFile(join(first.path, 'chromium-headless-shell'), 'not a program');
    for (const [folder, name] of [
      [first.path, 'chromium'],
      [second.path, 'headless_shell'],
    ] as const) {
      await writeFile(join(folder, name), '#!/bin/sh\n');
      await chmod(join(folder, name), 0o755);
    }
    const found = findBrowser([first.path, second.path].join(delimiter));
    assert.equal((await found?.prepare())?.path, join(second.path, 'headless_shell'));
  });

  it('comes from npm where there is none', {
    skip: packagedBrowser() === undefined && 'npm has a browser for Linux on x64 only',
  }, async () => {
    const found = findBrowser('');
    assert.ok(found);
    const { path, env } = await found.prepare();
    assert.deepEqual(await found.prepare(), { path, env });
    const { stdout } = await promisify(execFile)(path, ['--version'], { env, timeout: 240_000 });
    assert.match(stdout, /^(Chromium|HeadlessChrome|Google Chrome) \d+/);
  });
});
