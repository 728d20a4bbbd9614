// Writes the pictures of the console under demo traffic: a part of `npm run screenshots`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { openBrowser } from 'spillway-fixtures/browser';

const root = dirname(import.meta.dirname);
/** Time in which the charts get a shape. */
const trafficMs = 60_000;
const shots = [
  { name: 'console', width: 1280, colorScheme: 'light' },
  { name: 'console-dark', width: 1280, colorScheme: 'dark' },
  { name: 'console-phone', width: 390, colorScheme: 'light' },
] as const;

await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-screenshots-'));
const ports = ['fleet', 'ingest', 'ranker', 'console'].flatMap((name) => [`--${name}-port`, '0']);
const words = ['scripts/start.ts', '--demo', '--data', folder.path, ...ports];
const started = spawn(process.execPath, words, {
  cwd: root,
  stdio: ['ignore', 'pipe', 'inherit'],
});
const ended = once(started, 'exit');
const browser = await openBrowser();
try {
  const context = await browser.newContext();
  for await (const line of createInterface(started.stdout)) {
    const link = /^ {2}(http:\S+\?token=\S+)$/.exec(line)?.[1];
    if (link === undefined) continue;
    const page = await context.newPage();
    await page.goto(link);
    await page.goto(new URL('/launch', link).href);
    await page.getByRole('button', { name: 'I have noted them' }).click();
    await sleep(trafficMs);
    for (const { name, width, colorScheme } of shots) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await page.goto(new URL('/?service=fleet', link).href);
      await page.screenshot({ path: join(root, 'docs', 'images', `${name}.png`) });
      process.stdout.write(`docs/images/${name}.png\n`);
    }
    break;
  }
} finally {
  await browser.close();
  started.kill('SIGTERM');
  await ended;
}
