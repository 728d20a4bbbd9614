import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { html, openFetcher, openSite, refusalOf, story } from './fetch-scene.ts';

const page = `<article>${story(6).markup}</article>`;

describe('politeness', () => {
  it('asks one host no more often than is right, and others meanwhile', async () => {
    await using one = await openSite();
    await using other = await openSite();
    one.pages.set('/', html(page));
    other.pages.set('/', html(page));
    const politeness = { ratePerSecond: 10, burst: 1, queueMax: 2 };
    const clock = new VirtualClock();
    await using fetcher = await openFetcher({ politeness, clock });
    const [first, second, third] = [one, one, one].map(({ url }) =>
      fetcher.fetchArticle(`${url}/`),
    );
    await assert.rejects(fetcher.fetchArticle(`${one.url}/`), { code: 'BUCKET_FULL', status: 429 });
    assert.equal((await first)?.kind, 'article');
    assert.equal((await fetcher.fetchArticle(`${other.url}/`)).kind, 'article');
    assert.equal(one.asked.length, 1);
    await clock.advance(100);
    assert.equal((await second)?.kind, 'article');
    await clock.advance(99);
    assert.equal(one.asked.length, 2);
    await clock.advance(1);
    assert.equal((await third)?.kind, 'article');
  });

  it('leaves a host alone that asks for it', async () => {
    await using site = await openSite();
    site.pages.set('/', (response) => response.writeHead(429, { 'retry-after': '120' }).end());
    await using fetcher = await openFetcher();
    const first = await refusalOf(fetcher.fetchArticle(`${site.url}/`));
    const second = await refusalOf(fetcher.fetchArticle(`${site.url}/other`));
    assert.deepEqual([first.reason, second.reason], ['blocked', 'blocked']);
    assert.match(second.detail, /left alone for 1[12]\d s/);
    assert.deepEqual(site.asked, ['/']);
  });

  it('remembers no more hosts than it may', async () => {
    await using site = await openSite();
    site.pages.set('/', html(page));
    const politeness = { ratePerSecond: 1_000, burst: 10, hostsMax: 3 };
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
    await using fetcher = await openFetcher({ politeness, resolve });
    for (let n = 0; n < 9; n += 1) {
      await fetcher.fetchArticle(`http://host-${n}.example:${site.port}/`);
    }
    assert.equal(fetcher.stats.web.politeness.keys, 3);
  });
});
