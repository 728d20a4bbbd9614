import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Lease, MemoryStore } from 'spillway';
import { primaryOnly } from 'spillway-http';
import { Site } from './fixtures/site.ts';

describe('primaryOnly', () => {
  it('answers 503 with Retry-After on routes of the primary, if this is not it', async () => {
    let isPrimary = false;
    await using site = await Site.open(async (app) => {
      await app.register(primaryOnly, { primary: () => isPrimary, retryAfterMs: 2500 });
      app.get('/', () => 'any');
      app.post('/write', { config: { primaryOnly: true } }, () => 'written');
    });
    const refused = await site.ask('/write', { method: 'POST', body: '{' });
    assert.equal(refused.status, 503);
    assert.equal(refused.json.code, 'NOT_PRIMARY');
    assert.equal(refused.headers['retry-after'], '3');
    assert.equal((await site.ask('/')).status, 200);
    isPrimary = true;
    assert.equal((await site.ask('/write', { method: 'POST' })).text, 'written');
  });

  it('follows a lease, from one instance to the next', async () => {
    const store = new MemoryStore();
    const options = { store, name: 'primary', ttlMs: 30_000 };
    const lease = await Lease.acquire(options);
    const open = (primary: Lease) =>
      Site.open(async (app) => {
        await app.register(primaryOnly, { primary });
        app.get('/', { config: { primaryOnly: true } }, () => 'primary');
      });
    await using first = await open(lease);
    assert.equal((await first.ask('/')).status, 200);
    await lease[Symbol.asyncDispose]();
    assert.equal((await first.ask('/')).status, 503);
    await using next = await Lease.acquire(options);
    await using second = await open(next);
    assert.equal((await second.ask('/')).status, 200);
  });

  it('refuses wrong options, naming them', async () => {
    const wrong = Site.open((app) => app.register(primaryOnly, { primary: true as never }));
    await assert.rejects(wrong, /primary: must be a lease or a function/);
  });
});
