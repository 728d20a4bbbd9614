import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { inaccessible, openBrowser } from 'spillway-fixtures/browser';
import { createServer, type HttpServer } from 'spillway-http';
import { errorPage } from 'spillway-http/kit';
import { kitPage } from './fixtures/kit-page.ts';

describe('a page of the kit in a browser', () => {
  let server: HttpServer;
  let browser: Browser;

  before(async () => {
    server = await createServer();
    server.app.get('/', async () => kitPage());
    server.app.get('/busy', async () =>
      errorPage({ status: 503, code: 'LANE_FULL', retrySeconds: 3_600 }),
    );
    await server.start();
    browser = await openBrowser();
  });
  after(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  /** Opens a page, and fails if the browser complains of anything. */
  async function visit<T>(
    path: string,
    options: BrowserContextOptions,
    look: (page: Page) => Promise<T>,
  ): Promise<T> {
    const context = await browser.newContext(options);
    try {
      const page = await context.newPage();
      const complaints: string[] = [];
      page.on('console', (message) => complaints.push(message.text()));
      page.on('pageerror', (error) => complaints.push(String(error)));
      await page.goto(server.url + path);
      const seen = await look(page);
      assert.deepEqual(complaints, []);
      return seen;
    } finally {
      await context.close();
    }
  }

  for (const path of ['/', '/busy']) {
    for (const width of [1440, 390]) {
      for (const colorScheme of ['light', 'dark'] as const) {
        it(`is accessible: ${path} at ${width} px, ${colorScheme}`, async () => {
          // The policy of the page forbids foreign scripts; axe is not one of the page.
          const options = { viewport: { width, height: 900 }, colorScheme, bypassCSP: true };
          assert.deepEqual(await visit(path, options, inaccessible), []);
        });
      }
    }

    it(`never scrolls sideways: ${path} at 320 px`, async () => {
      const viewport = { width: 320, height: 640 };
      const width = await visit(path, { viewport }, (page) =>
        page.evaluate('document.documentElement.scrollWidth'),
      );
      assert.equal(width, 320);
    });
  }

  it('tries again by itself when the time has come, with and without script', async () => {
    for (const javaScriptEnabled of [true, false]) {
      let asked = 0;
      const context = await browser.newContext({ javaScriptEnabled });
      const page = await context.newPage();
      await page.route('**/soon', async (route) => {
        asked += 1;
        const busy = errorPage({ status: 503, code: 'LANE_FULL', retrySeconds: 1 });
        const body = asked === 1 ? String(busy) : '<h1>Here it is</h1>';
        await route.fulfill({ status: asked === 1 ? 503 : 200, contentType: 'text/html', body });
      });
      await page.goto(`${server.url}/soon`);
      await page.getByText('Here it is').waitFor();
      assert.equal(asked, 2);
      await context.close();
    }
  });

  it('asks in a dialog, focuses the harmless answer, closes by key or by button', async () => {
    await visit('/', {}, async (page) => {
      await page.getByRole('link', { name: 'Stop…' }).click();
      const dialog = page.getByRole('dialog');
      assert.ok(await dialog.isVisible());
      assert.equal(await page.evaluate('document.activeElement.textContent'), 'Let it run');
      await page.keyboard.press('Escape');
      assert.ok(await dialog.isHidden());
      await page.getByRole('link', { name: 'Stop…' }).click();
      await page.getByRole('link', { name: 'Let it run' }).click();
      assert.ok(await dialog.isHidden());
      assert.equal(new URL(page.url()).hash, '');
    });
  });

  it('works without script: dialogs, tables of charts, themes of the machine', async () => {
    const options = { javaScriptEnabled: false, colorScheme: 'dark' } as const;
    await visit('/', options, async (page) => {
      await page.getByRole('link', { name: 'Stop…' }).click();
      assert.ok(await page.getByRole('button', { name: 'Stop the run' }).isVisible());
      await page.getByRole('link', { name: 'Let it run' }).click();
      assert.ok(await page.getByRole('button', { name: 'Stop the run' }).isHidden());
      await page.getByText('Show as a table').first().click();
      assert.ok(await page.getByRole('cell', { name: '2.83', exact: true }).isVisible());
      assert.ok(await page.locator('[data-theme-switch]').isHidden());
    });
  });

  it('reads a chart with the arrow keys, and switches the theme', async () => {
    await visit('/', {}, async (page) => {
      // At its first frame the browser looks for `autofocus`; it complains if anything has focus.
      await page.evaluate('new Promise(requestAnimationFrame)');
      const chart = page.locator('.chart').first();
      await chart.locator('.plot').focus();
      await page.keyboard.press('ArrowLeft');
      assert.match(String(await chart.locator('output').textContent()), /^56,640: 2\.\d\d$/);
      await page.getByRole('button', { name: /^Theme/ }).click();
      assert.equal(await page.locator('html').getAttribute('data-theme'), 'light');
      await page.reload();
      assert.equal(await page.locator('html').getAttribute('data-theme'), 'light');
    });
  });
});
