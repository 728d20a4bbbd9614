import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, it } from 'node:test';
import { Listener } from 'spillway/connect';
import { openService } from '../src/service.ts';

describe('the service', () => {
  it('answers, tells what is not there, and counts', async (t) => {
    const site = new Listener(
      createServer((req, res) => {
        res.statusCode = req.url === '/river' ? 200 : 404;
        res.end('The river rises.');
      }),
    );
    t.after(() => site.close());
    await site.start();
    const settings = { host: '127.0.0.1', port: 0, upstream: new URL(site.url) };
    const { service, listener } = await openService(settings);
    t.after(() => service.close());
    await service.start();

    const river = await fetch(`${listener.url}/words/river`);
    assert.deepEqual([river.status, await river.json()], [200, { words: 3 }]);
    const missing = await fetch(`${listener.url}/words/dam`);
    assert.equal(missing.status, 404);
    assert.match(await missing.text(), /NO_PAGE/);
    const elsewhere = await fetch(`${listener.url}/words///127.0.0.1:1/river`);
    assert.equal(elsewhere.status, 404, 'no other site is asked');
    assert.equal((await fetch(`${listener.url}/ready`)).status, 200);
    const numbers = await (await fetch(`${listener.url}/metrics`)).text();
    assert.match(numbers, /spillway_lane_finished_total\{lane="words"\} 3/);
  });
});
