import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { Breaker, Bucket, Lane, Panel } from 'spillway';
import { openConsole } from 'spillway-console';
import { createServer, type HttpServer, operatorSocket } from 'spillway-http';
import { Scene } from './fixtures/scene.ts';

interface Served extends AsyncDisposable {
  readonly server: HttpServer;
  readonly lane: Lane;
  readonly breaker: Breaker;
  readonly bucket: Bucket;
  /** Lines of its log. */
  readonly lines: object[];
  /** Lets everything end that is inside. */
  finish(): void;
}

/** A real service with one lane of two, whose work ends when it is told to. */
async function serveShop(data: string): Promise<Served> {
  const folder = join(data, 'shop');
  await mkdir(folder, { recursive: true });
  const times = { queueMax: 0, deadlineMs: 60_000 };
  const parent = new Lane({ name: 'process', limit: { fixed: 20 }, ...times });
  const lane = new Lane({ name: 'orders', limit: { fixed: 2 }, ...times, parent });
  const breaker = new Breaker();
  const bucket = new Bucket({ ratePerSecond: 0.001, burst: 3, queueMax: 0 });
  const panel = new Panel();
  panel.watch('process', parent);
  panel.watch('upstream', breaker);
  panel.watch('exchange', bucket);
  const lines: object[] = [];
  const nothing = () => {};
  const log = {
    level: 'warn',
    ...{ silent: nothing, trace: nothing, debug: nothing, info: nothing, error: nothing },
    fatal: nothing,
    warn: (line: object) => lines.push(line),
    child: () => log,
  } as never;
  const operator = { socket: operatorSocket(folder), panel };
  const server = await createServer({ port: 0, operator, log });
  let over = Promise.withResolvers<void>();
  server.app.get('/order', { config: { lane } }, async () => {
    await over.promise;
    return 'done';
  });
  server.app.get('/till', async () => {
    throw new Error('the till is stuck');
  });
  const id = { type: 'string', maxLength: 100, pattern: '^[a-z0-9]{1,100}$', description: 'x' };
  const params = { type: 'object', properties: { id }, required: ['id'] };
  server.app.get(`/${'a_long-name_'.repeat(5)}/:id`, { schema: { params } }, async () => 'done');
  await server.start({ signal: new AbortController().signal });
  return {
    server,
    lane,
    breaker,
    bucket,
    lines,
    finish: () => {
      over.resolve();
      over = Promise.withResolvers<void>();
    },
    [Symbol.asyncDispose]: () => server.close(),
  };
}

describe('the console', () => {
  let scene: Scene;
  let data: string;

  before(async () => {
    scene = await Scene.open();
    ({ data } = scene);
  });

  after(() => scene[Symbol.asyncDispose]());

  const show = (url: string): Promise<Page> => scene.show(url);

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
      while (shop.lane.stats.inside < 2) await new Promise(setImmediate);
      // Enough to weigh more than an event loop that is late on a busy machine.
      for (let call = 0; call < 8; call += 1) {
        assert.equal((await fetch(`${shop.server.url}/order`)).status, 503);
      }
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

  it('shows an overload, a kill and a restart of a real process, and stays usable', async (t) => {
    const folder = join(data, 'killed');
    await mkdir(folder);
    const start = async () => {
      const child = fork(join(import.meta.dirname, 'fixtures', 'shop.ts'), [folder]);
      t.after(() => child.kill('SIGKILL'));
      const [url] = await once(child, 'message');
      return { child, url: String(url) };
    };
    const first = await start();
    await using opened = await openConsole({ data, port: 0 });
    const page = await show(opened.openUrl());
    const tile = page.locator('.service', { hasText: 'killed' });
    await tile.getByText('calm').waitFor();
    /** Milliseconds until the page shows it; the console looks once a second. */
    const shown = async (what: string, isShown: Promise<void>) => {
      const startedAt = performance.now();
      await isShown;
      t.diagnostic(`${what}: ${Math.round(performance.now() - startedAt)} ms`);
    };
    const inside = fetch(`${first.url}/order`).catch(() => {});
    // As above, most are refused; one that comes first takes the permit and is given up.
    for (let refused = 0; refused < 8; ) {
      const asked = fetch(`${first.url}/order`, { signal: AbortSignal.timeout(200) });
      const status = await asked.then(
        (answer) => answer.status,
        () => 0,
      );
      if (status === 503) refused += 1;
    }
    await shown('overload', page.getByText(/killed turns work away/).waitFor());
    first.child.kill('SIGKILL');
    await shown(
      'kill',
      page
        .getByText(/killed does not run/)
        .first()
        .waitFor(),
    );
    assert.equal(await page.getByText('Change…').count(), 0, 'nothing of it can be changed');
    await page.getByText('Look at the cause').click();
    await page.getByRole('heading', { level: 1, name: 'Events' }).waitFor();
    await page.locator('.timeline').getByText('does not run').waitFor();
    await start();
    await shown('restart', page.getByText('answers again').waitFor());
    await inside;
  });

  it('resizes and pauses a lane and holds a breaker, each confirmed and logged', async () => {
    await using shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    await page.locator('.service', { hasText: 'shop' }).waitFor();
    const { origin } = new URL(page.url());
    await page.goto(`${origin}/lanes?service=shop`);
    await page
      .getByRole('row', { name: /orders/ })
      .getByText('Change…')
      .click();
    await page.getByRole('heading', { name: 'Change lane orders' }).waitFor();
    await page.getByLabel('New limit').fill('5');
    await page.getByRole('button', { name: 'Resize the lane' }).click();
    await page.getByText('Resize the lane: done.').waitFor();
    assert.equal(shop.lane.stats.limit, 5);
    await page.getByLabel('New limit').fill('0');
    await page.getByRole('button', { name: 'Resize the lane' }).click();
    await page.getByText('Nothing was changed.').waitFor();
    assert.equal(shop.lane.stats.limit, 5);
    await page.getByRole('button', { name: 'Pause the lane' }).click();
    await page.getByText('Pause the lane: done.').waitFor();
    assert.equal(shop.lane.stats.limit, 0);
    await page.getByRole('link', { name: 'Events' }).click();
    await page.getByText(/lane orders: resize to 5, by console, session/).waitFor();
    await page.goto(`${origin}/?service=shop`);
    await page.getByRole('region', { name: 'Breaker' }).getByText('Change…').click();
    await page.getByRole('button', { name: 'Hold it open' }).click();
    await page.getByText('Hold it open: done.').waitFor();
    assert.equal(shop.breaker.stats.state, 'open');
    const by = (shop.lines[0] as { readonly by: string }).by;
    assert.match(by, /^console, session [\w-]{6} from 127\.0\.0\.1$/);
    const done = shop.lines.filter((line) => 'action' in line);
    assert.deepEqual(done, [
      { action: 'resize', part: 'orders', value: 5, by },
      { action: 'pause', part: 'orders', by },
      { action: 'open', part: 'upstream', by },
    ]);
  });

  it('draws the budget of permits and of tokens in a burst, and what a breaker did', async () => {
    await using shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    await page.locator('.service', { hasText: 'shop' }).click();
    const inside = [1, 2].map(() => fetch(`${shop.server.url}/order`));
    while (shop.lane.stats.inside < 2) await new Promise(setImmediate);
    const permits = page.getByRole('region', { name: 'Permits in a burst' });
    await permits.getByRole('img', { name: 'Of 20 permits of process 2 are in use' }).waitFor();
    await permits.getByRole('row', { name: '− orders 2 10.0' }).waitFor();
    shop.finish();
    await Promise.all(inside);
    await permits.getByRole('img', { name: 'Of 20 permits of process 0 are in use' }).waitFor();
    await permits.getByRole('row', { name: 'Left at the busiest moment 18 90.0' }).waitFor();
    for (let call = 0; call < 5; call += 1) await shop.bucket.take().catch(() => {});
    const buckets = page.getByRole('region', { name: 'Buckets' });
    await buckets.getByRole('img', { name: '3 granted and 2 refused' }).waitFor();
    using _held = shop.breaker.hold('open');
    const breaker = page.getByRole('region', { name: 'Breaker' });
    await breaker.getByText('breaker upstream opened').waitFor();
  });

  it('takes no action without its session or its token', async () => {
    await using shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const link = opened.openUrl();
    const { origin } = new URL(link);
    const entered = await fetch(link, { redirect: 'manual' });
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';')[0] as string;
    const body = new URLSearchParams('service=shop&kind=lane&part=orders&action=pause');
    const post = (headers: Record<string, string>) =>
      fetch(`${origin}/act`, { method: 'POST', headers, body, redirect: 'manual' });
    assert.equal((await post({})).status, 401);
    assert.equal((await post({ cookie })).status, 403);
    assert.equal(shop.lane.stats.limit, 2);
  });

  it('shows a service of another machine, by its address and token', async () => {
    const token = 'a-token-of-sixteen-or-more';
    await using server = await createServer({ port: 0, operator: { remote: { port: 0, token } } });
    await server.start();
    const url = String(server.operator.url);
    const remotes = { far: { url, token }, wrong: { url, token: 'not-that-token-at-all' } };
    await using opened = await openConsole({ data, remotes, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    await page.locator('.service', { hasText: 'far' }).getByText('calm').waitFor();
    await page.locator('.service', { hasText: 'wrong' }).getByText('answered 403').waitFor();
  });

  it('shows the routes of a service with their schemas', async () => {
    await using _shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    await page.locator('.service', { hasText: 'shop' }).waitFor();
    await page.goto(`${new URL(page.url()).origin}/routes?service=shop`);
    await page.getByRole('link', { name: 'API with its schemas' }).click();
    await page.getByRole('heading', { name: 'GET /order' }).waitFor();
  });

  it('lists the failures of a service with their stacks', async () => {
    await using shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    assert.equal((await fetch(`${shop.server.url}/till`)).status, 500);
    await page.goto(`${new URL(page.url()).origin}/errors?service=shop`);
    await page.getByText('the till is stuck').first().click();
    await page.getByText('console.test.ts').waitFor();
  });

  it('is used by keyboard, dark as well, and asks nothing of other sites', async () => {
    await using _shop = await serveShop(data);
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await scene.browser.newPage({ colorScheme: 'dark' });
    const origins = new Set<string>();
    page.on('request', (request) => origins.add(new URL(request.url()).origin));
    await page.goto(opened.openUrl());
    await page.locator('.service', { hasText: 'shop' }).waitFor();
    const focused = () => page.evaluate('document.activeElement.textContent.trim()');
    while ((await focused()) !== 'Lanes') await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Lanes' }).waitFor();
    const ground = String(await page.evaluate('getComputedStyle(document.body).backgroundColor'));
    const brightness = Math.max(...(ground.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number));
    assert.ok(brightness < 60, ground);
    assert.deepEqual([...origins], [new URL(page.url()).origin]);
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
    const { origin } = new URL(page.url());
    await page.goto(`${origin}/lanes?service=shop`);
    const numbers = await page
      .getByRole('row', { name: /orders/ })
      .locator('.num > span')
      .all();
    const boxes = await Promise.all(numbers.map((number) => number.boundingBox()));
    const shown = boxes.filter((box) => box !== null);
    const ends = new Set(shown.map(({ x, width }) => Math.round(x + width)));
    assert.deepEqual([shown.length, ends.size], [3, 1], 'all numbers end at the same edge');
    await page.goto(`${origin}/api?service=shop`);
    await page.getByRole('heading', { name: /long-name/ }).waitFor();
    const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
    assert.ok(width <= 390, `API: ${width}`);
  });
});
