import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';

/**
 * Runs an app's `src/commands/main.ts`. This file is plain JavaScript without dependencies, so that
 * any Node can run it: it finds a Node that can run the rest.
 * @param {string} name
 * @param {string} app its folder
 */
export async function launch(name, app) {
  const main = join(app, 'src', 'commands', 'main.ts');
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 24 || (major === 24 && minor >= 12)) {
    // Saves a third of the next start. No other user can write to this folder.
    const cache = join(app, 'node_modules', '.cache');
    const { directory } = module.enableCompileCache(cache);
    // Worker threads find the cache only here: 25 MB less in a harvest with SQLite (2026-11).
    if (directory !== undefined) process.env.NODE_COMPILE_CACHE ??= cache;
    await import(main);
    return;
  }
  const node = installedNode(app);
  if (node === undefined) {
    console.error(`${name}: needs Node 24.12 or newer, and this is ${process.versions.node}.`);
    console.error('Install it from https://nodejs.org, or run "npm ci" at the root of the clone.');
    process.exit(1);
  }
  runWith(node, main);
}

/**
 * Finds the Node that `npm ci` has installed in a `node_modules` above.
 * @param {string} app
 */
function installedNode(app) {
  for (let folder = app; folder !== dirname(folder); folder = dirname(folder)) {
    const node = join(folder, 'node_modules', '.bin', 'node');
    if (existsSync(node)) return node;
  }
  return undefined;
}

/**
 * @param {string} node
 * @param {string} main
 */
function runWith(node, main) {
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit' });
  // On Ctrl-C a terminal signals both processes; any other sender signals only this one.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'));
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 1;
    if (signal !== null) process.kill(process.pid, signal);
  });
}
