import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { openConsole } from 'spillway-console';
import { operatorSocket } from 'spillway-http';
import { openFolder, Scene } from './fixtures/scene.ts';

describe('a service that the console cannot reach or cannot read', () => {
  let scene: Scene;
  let data: string;

  before(async () => {
    scene = await Scene.open();
    ({ data } = scene);
  });

  after(() => scene[Symbol.asyncDispose]());

  const show = (url: string): Promise<Page> => scene.show(url);

  it('becomes an event when it is too slow, and when it is gone', async () => {
    const folder = join(data, 'slow');
    await mkdir(folder);
    const slow = createHttpServer(() => {}).listen(operatorSocket(folder));
    await once(slow, 'listening');
    await using opened = await openConsole({ data, port: 0, lookMs: 100 });
    const page = await show(opened.openUrl());
    await page.goto(`${new URL(page.url()).origin}/events?service=slow`);
    await page.locator('.timeline').getByText('answers too slowly').waitFor();
    slow.closeAllConnections();
    slow.close();
    await page.locator('.timeline').getByText('does not run').waitFor();
  });

  it('becomes one event for each reason, however often they alternate', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = join(data, 'turns');
    await mkdir(folder);
    const looks = Promise.withResolvers<void>();
    let asked = 0;
    const turns = createHttpServer((_request, response) => {
      asked += 1;
      if (asked === 7) looks.resolve();
      response.writeHead(asked % 2 === 0 ? 500 : 503).end('{}');
    }).listen(operatorSocket(folder));
    stack.defer(() => void turns.close());
    await once(turns, 'listening');
    const opened = stack.use(await openConsole({ data, port: 0, lookMs: 20 }));
    await looks.promise;
    const page = await show(opened.openUrl());
    await page.goto(`${new URL(page.url()).origin}/events?service=turns`);
    for (const reason of ['answered 500', 'answered 503']) {
      assert.equal(await page.locator('.timeline').getByText(reason).count(), 1, reason);
    }
  });

  it('leaves every page as it is, whatever it sends', async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await openFolder(stack);
    const process = { uptimeMs: 1, residentBytes: 1, loopDelayMs: { p99: 1 } };
    const evil = '"><script>alert(1)</script>';
    const times = { count: 1, mean: 1, p50: 1, p99: 1 };
    const counts = { limit: 2, inside: 1, waiting: 0, arrived: 9, arrivalsPerSecond: 1 };
    const lane = { kind: 'lane', ...counts, refused: { [evil]: 9 }, serviceMs: times, lanes: [] };
    const odd = ['lane', 'pool', 'breaker', 'bucket', 'constructor'].map((kind) => ({ kind }));
    const breaker = { kind: 'breaker', state: evil, lastFailure: { message: evil } };
    const route = { method: 'GET', path: evil, domain: '', answers: {}, loopMs: times };
    // Parts with the fields that a reading must have; all others are of another type.
    const least = {
      lane: { ...lane, lanes: [{ name: '', limit: 1, inside: 0, arrived: 0 }] },
      pool: { kind: 'pool', inside: 0, serviceMs: times, workers: [] },
      bucket: { kind: 'bucket', tokens: 0, ratePerSecond: 1, taken: 0, refused: 0 },
      breaker: { kind: 'breaker', state: 'open' },
      lease: { kind: 'lease' },
      backlog: { kind: 'backlog' },
      harvest: { kind: 'harvest' },
    };
    const odds = ['name', 'held', 'holder', 'fence', 'calls', 'failures', 'recycled', 'queueMax'];
    const wrong = Object.fromEntries(odds.map((name) => [name, { [evil]: null }]));
    const sends: Readonly<Record<string, string>> = {
      nothing: '',
      words: 'no JSON',
      null: 'null',
      list: '[{}]',
      bare: '{}',
      routes: JSON.stringify({ process, routes: [null, { answers: null }] }),
      parts: JSON.stringify({ process, routes: [], parts: odd, changeable: 5 }),
      names: JSON.stringify({
        ...{ process, routes: [], url: 'javascript:alert(1)' },
        parts: { [evil]: lane, b: { ...breaker, name: evil } },
      }),
      least: JSON.stringify({
        process,
        routes: [{ ...route, latencyMs: times, lane: {}, broken: 'no' }],
        parts: Object.values(least).map((part) => ({ ...part, ...wrong })),
      }),
      many: JSON.stringify({ process, routes: [], parts: Array(3_000).fill(lane) }),
      huge: ' '.repeat(40_000_000),
    };
    for (const [name, body] of Object.entries(sends)) {
      await mkdir(join(folder, name));
      const socket = operatorSocket(join(folder, name));
      const server = createHttpServer((_request, response) => response.end(body)).listen(socket);
      stack.defer(() => void server.close());
      await once(server, 'listening');
    }
    const opened = stack.use(await openConsole({ data: folder, port: 0, lookMs: 2_000 }));
    const page = await show(opened.openUrl());
    const { origin } = new URL(page.url());
    const tile = (name: string) => page.locator(`.service[href$="=${name}"]`);
    for (const name of ['nothing', 'words', 'null', 'list', 'bare', 'routes']) {
      await tile(name).getByText('sends what this console cannot read').waitFor();
    }
    for (const name of ['parts', 'names', 'least', 'many']) {
      await tile(name).getByText('loop p99').waitFor();
    }
    await tile('huge').getByText('sends more than').waitFor();
    for (const place of ['', 'lanes', 'pools', 'events', 'errors', 'routes', 'advisor', 'api']) {
      for (const name of ['', ...Object.keys(sends)]) {
        const answer = await page.request.get(`${origin}/${place}?service=${name}`);
        assert.equal(answer.status(), 200, `${place} of ${name}`);
      }
    }
    await page.setViewportSize({ width: 390, height: 800 });
    const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
    assert.ok(width <= 390, `${width}`);
    await page.goto(`${origin}/events`);
    await page.getByText('4 of its parts are not shown').waitFor();
    await page.getByText('2500 of its parts are not shown').waitFor();
    await page.goto(`${origin}/?service=names`);
    assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
    assert.doesNotMatch(await page.content(), /<script>alert/);
  });
});
