// Writes the pictures of console and reader under demo traffic: a part of `npm run screenshots`.
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

const readerShots = [
  { name: 'reader-light', width: 1440, height: 900, colorScheme: 'light', opens: true },
  { name: 'reader-dark', width: 1440, height: 900, colorScheme: 'dark', opens: true },
  { name: 'reader-phone', width: 390, height: 844, colorScheme: 'light', opens: false },
  { name: 'reader-phone-article', width: 390, height: 844, colorScheme: 'light', opens: true },
] as const;

/** The ratings from which the reader knows a taste, by the key that gives each. */
const ratings = { 'Why a full queue': '0', 'Red carpet': '1', 'What a worker thread': '9' };

/** The reader of the first user, who has rated three samples, each time in a new browser. */
async function shootReader(ranker: string, key: string): Promise<void> {
  for (const [at, { name, width, height, colorScheme, opens }] of readerShots.entries()) {
    await using context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const page = await context.newPage();
    await page.goto(`${ranker}/reader`);
    await page.getByLabel('API key').fill(key);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.locator('li[data-article] .score[data-score]').first().waitFor();
    for (const [title, digit] of Object.entries(at === 0 ? ratings : {})) {
      const article = page.locator('li[data-article]', { hasText: title });
      await article.locator('a').first().focus();
      await page.keyboard.press(digit);
      await article.waitFor({ state: 'detached' });
    }
    // Without the message of the last rating.
    await page.reload();
    if (opens) await page.locator('li[data-article] a').first().click();
    if (opens) await page.locator('.why-box').waitFor();
    await page.screenshot({ path: join(root, 'docs', 'images', `${name}.png`) });
    process.stdout.write(`docs/images/${name}.png\n`);
  }
}

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
  let said = '';
  for await (const line of createInterface(started.stdout)) {
    said += `${line}\n`;
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
    const [, ranker = ''] = /Ranker is ready at (http:\S+?),/.exec(said) ?? [];
    await shootReader(ranker, /rk_[\w-]+/.exec(said)?.[0] ?? '');
    break;
  }
} finally {
  await browser.close();
  started.kill('SIGTERM');
  await ended;
}
