import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import type { ProductOutcome } from '../src/harvest/product.ts';
import { type Ingest, openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { ingest } from './fixtures/ingest-command.ts';

const { signal } = new AbortController();
const wish = { fullRefresh: false, sinceUs: undefined, untilUs: undefined, fillsGaps: false };

async function open(data: string, baseUrl: string): Promise<Ingest> {
  const { settings } = readSettings({ flags: { data, baseUrl }, environment: {} });
  return await openIngest({ settings, environment: {} });
}

async function outcomeOf(opened: Ingest): Promise<ProductOutcome | undefined> {
  const harvester = opened.harvester({ ...wish, products: ['A-USD'] });
  const [outcome] = await harvester.run(signal);
  return outcome;
}

describe('an exchange that cannot be used now', () => {
  it('and asks for a long pause ends this run and the next ones, until that is ended', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-pause-'));
    await using site = await StandIn.open();
    site.tell('', 429, { 'retry-after': '100000' });
    {
      await using first = await open(folder.path, site.url);
      assert.equal((await outcomeOf(first))?.code, 'EXCHANGE_PAUSED');
    }
    const asked = site.asked.length;
    assert.equal(asked, 1);
    {
      await using second = await open(folder.path, site.url);
      const outcome = await outcomeOf(second);
      assert.equal(outcome?.code, 'EXCHANGE_PAUSED');
      assert.match(outcome?.reason ?? '', /a pause until \d{4}-.*ingest resume/);
      assert.equal(site.asked.length, asked, 'a request was made in the pause');
    }
    const place = ['--data', folder.path, '--base-url', site.url];
    const resumed = await ingest('resume', ...place);
    assert.match(resumed.stdout, /^The pause until \S+ is ended/);
    site.tell('[]');
    await using third = await open(folder.path, site.url);
    assert.equal((await outcomeOf(third))?.status, 'done');
  });

  it('because nothing is at its address is told within 5 seconds, with the address', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-nowhere-'));
    await using opened = await open(folder.path, 'http://127.0.0.1:9');
    const startedAt = performance.now();
    const outcome = await outcomeOf(opened);
    assert.equal(outcome?.code, 'EXCHANGE_UNREACHABLE');
    const told = /http:\/\/127\.0\.0\.1:9 cannot be reached: .*ECONNREFUSED/;
    assert.match(outcome?.reason ?? '', told);
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs < 5_000, `${tookMs} ms`);
  });
});
