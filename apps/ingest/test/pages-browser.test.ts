import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { inaccessible, openBrowser } from 'spillway-fixtures/browser';
import { IngestCommand } from './fixtures/ingest-command.ts';

describe('the pages of a follower in a browser', () => {
  it('fit a phone and a desk, and are accessible', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(await mkdtempDisposable(join(tmpdir(), 'ingest-pages-')));
    const words = ['follow', '--simulated', '--port', '0', '--data', folder.path];
    const command = new IngestCommand([...words, '--rate-per-second', '1000']);
    stack.defer(async () => {
      command.signal('SIGINT');
      await command.ended;
    });
    const url = await command.url();
    const browser = await openBrowser();
    stack.defer(() => browser.close());
    // There is no report before the first look at the table.
    while ((await fetch(`${url}/report`)).status !== 200) await setTimeout(20);
    const wrong: string[] = [];
    for (const [width, colorScheme] of [
      [390, 'dark'],
      [1440, 'light'],
    ] as const) {
      const page = await browser.newPage({ baseURL: url, viewport: { width, height: 900 } });
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      for (const path of ['/', '/report']) {
        await page.goto(path);
        await page.waitForSelector('table.table[aria-label*="roduct"] tbody tr');
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        if (Number(wide) > width) wrong.push(`${path} is ${wide} wide at ${width}`);
        for (const finding of await inaccessible(page)) {
          wrong.push(`${path} at ${width}, ${colorScheme}: ${finding}`);
        }
      }
      await page.close();
    }
    assert.deepEqual(wrong, []);
  });
});
