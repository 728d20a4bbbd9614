import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { Lane } from 'spillway';
import { openConsole } from 'spillway-console';
import { openBrowser } from 'spillway-fixtures/browser';
import { createServer, type HttpServer, operatorSocket } from 'spillway-http';

interface Served extends AsyncDisposable {
  readonly server: HttpServer;
  readonly lane: Lane;
  /** Lets everything end that is inside. */
  finish(): void;
}

/** A real service with one lane of two, whose work ends when it is told to. */
async function serveShop(data: string): Promise<Served> {
  const folder = join(data, 'shop');
  await mkdir(folder, { recursive: true });
  const lane = new Lane({ name: 'orders', limit: { fixed: 2 }, queueMax: 0, deadlineMs: 60_000 });
  const server = await createServer({ port: 0, operator: { socket: operatorSocket(folder) } });
  let over = Promise.withResolvers<void>();
  server.app.get('/order', { config: { lane } }, async () => {
    await over.promise;
    return 'done';
  });
  await server.start({ signal: new AbortController().signal });
  return {
    server,
    lane,
    finish: () => {
      over.resolve();
      over = Promise.withResolvers<void>();
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}

describe('the console', () => {
  const resources = new AsyncDisposableStack();
  let browser: Browser;
  let data: string;

  before(async () => {
    browser = await openBrowser();
    resources.defer(() => browser.close());
    data = resources.use(await mkdtempDisposable(join(tmpdir(), 'spillway-console-'))).path;
    await mkdir(join(data, 'console'));
  });

  after(() => resources.disposeAsync());

  async function show(url: string): Promise<Page> {
    const page = await browser.newPage();
    await page.goto(url);
    return page;
  }

  it('lets in who has a new link, and each link once', async () => {
    await using opened = await openConsole({ data, port: 0 });
    const link = opened.openUrl();
    const { origin } = new URL(link);
    for (const path of [
      '/',
      '/lanes',
      '/_live',
      '/?token=',
      '/?token=wrong',
      '/?token=a&token=b',
    ]) {
      assert.equal((await fetch(origin + path)).status, 401, path);
    }
    const entered = await fetch(link, { redirect: 'manual' });
    const cookie = entered.headers.get('set-cookie') ?? '';
    assert.match(cookie, /HttpOnly; SameSite=Strict/);
    assert.equal((await fetch(link, { redirect: 'manual' })).status, 401);
    const headers = { cookie: cookie.split(';')[0] as string };
    assert.equal((await fetch(`${origin}/`, { headers })).status, 200);
    assert.equal((await fetch(`${origin}/?service=<script>`, { headers })).status, 200);
  });

  it('shows an overloaded lane with its reason, a stop and a new start', async () => {
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const shop = await serveShop(data);
    try {
      const page = await show(opened.openUrl());
      await page.getByText('All calm').waitFor();
      await page.locator('.service', { hasText: 'shop' }).waitFor();
      const inside = [1, 2].map(() => fetch(`${shop.server.url}/order`));
      const third = async () => (await fetch(`${shop.server.url}/order`)).status;
      while (shop.lane.stats.inside < 2) await new Promise(setImmediate);
      assert.equal(await third(), 503);
      await page.getByText(/shop turns work away: .* of orders/).waitFor();
      await page.getByText('the queue is full').waitFor();
      await page
        .getByText(/2 of 2/)
        .first()
        .waitFor();
      shop.finish();
      for (const answer of await Promise.all(inside)) assert.equal(answer.status, 200);
      await shop.server.close();
      await page
        .getByText(/shop does not run/)
        .first()
        .waitFor();
      await using _again = await serveShop(data);
      await page.getByText('answers again').waitFor();
      const sizes = await page.evaluate('[document.documentElement.scrollWidth, innerWidth]');
      const [width, room] = sizes as [number, number];
      assert.ok(width <= room, `${width} of ${room}`);
    } finally {
      await shop[Symbol.asyncDispose]();
    }
  });

  it('has every place, also on a phone', async () => {
    await using _shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    await page.setViewportSize({ width: 390, height: 800 });
    await page.locator('.service', { hasText: 'shop' }).waitFor();
    for (const name of ['Lanes', 'Pools', 'Events', 'Errors', 'Routes', 'Advisor']) {
      await page.getByRole('navigation', { name: 'Places' }).getByText(name).click();
      await page.getByRole('heading', { level: 1, name }).waitFor();
      const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
      assert.ok(width <= 390, `${name}: ${width}`);
    }
  });
});
