import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { openBrowser } from 'spillway-fixtures/browser';
import { NewsSite } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';

const titlesIn = (tab: Page): Promise<string[]> =>
  tab.locator('li[data-article] strong').allInnerTexts();
const item = (tab: Page, title: string) => tab.locator('li[data-article]', { hasText: title });

describe('the reader on the real server, with the real model', () => {
  const stack = new AsyncDisposableStack();
  let browser: Browser;
  let site: RankerSite;
  let news: NewsSite;

  before(async () => {
    browser = await openBrowser();
    stack.defer(() => browser.close());
    news = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open({ embedder: 'real' }));
  });

  after(() => stack.disposeAsync());

  it('learns from three votes on samples, shows it at once and says why', async (test) => {
    await using context = await browser.newContext();
    const tab = await context.newPage();
    await tab.goto(site.url);
    await tab.getByLabel('API key').fill(site.key);
    await tab.getByRole('button', { name: 'Log in' }).click();
    await tab.getByRole('button', { name: 'Add sample articles' }).click();
    // Scores come by themselves, once the texts are embedded.
    await tab.locator('li[data-article] .score[data-score]').nth(8).waitFor();
    assert.equal((await titlesIn(tab)).length, 9, 'ten articles, of which two tell the same');
    const vote = async (title: string, score: number) => {
      const begun = performance.now();
      await item(tab, title).locator('a').focus();
      await tab.keyboard.press(score === 10 ? '0' : String(score));
      await item(tab, title).waitFor({ state: 'detached' });
      test.diagnostic(`from click to the new order: ${Math.round(performance.now() - begun)} ms`);
    };
    await vote('Why a full queue should say no', 10);
    await vote('Red carpet surprise', 1);
    await vote('What a worker thread costs', 9);
    const order = await titlesIn(tab);
    const place = (title: string) => order.findIndex((shown) => shown.includes(title));
    assert.equal(order.length, 6);
    assert.equal(place('One index made the nightly report'), 0, order.join('\n'));
    assert.ok(place('The television chefs') > place('One index'), order.join('\n'));
    assert.match(await tab.locator('.feeds-end').innerText(), /taste from 3 ratings/);
    await item(tab, 'One index').locator('a').click();
    const why = tab.locator('.why-box');
    await why.waitFor();
    assert.match(await why.innerText(), /What you give on average[\s\S]*Most alike[\s\S]*Expected/);
    await tab.goto(`${site.url}/reader?list=rated`);
    assert.equal((await titlesIn(tab)).length, 3);
    await tab.getByRole('searchbox').fill('cracks arches');
    await tab.keyboard.press('Enter');
    await tab.getByText('1 story found').waitFor();
  });

  it('tells of a sentence what its deletion changes', async (test) => {
    const { user, key } = await site.ranker.storage.users.add('doubter');
    await site.ranker.reader.addSamples(user.id);
    await site.ranker.embedding.idle();
    const articles = await site.ranker.storage.userArticles.list({ userId: user.id, limit: 10 });
    for (const [at, { id }] of articles.slice(0, 6).entries()) {
      await site.ranker.ranking.vote(
        user.id,
        id,
        at % 2 === 0 ? 9 : 2,
        AbortSignal.timeout(30_000),
      );
    }
    const { json } = await site.ask('/evaluation/explanations', { key });
    test.diagnostic(JSON.stringify(json));
    assert.ok(json.sentences >= 20, `${json.sentences} sentences`);
    assert.ok(json.signsRight >= 0.95, `signs: ${json.signsRight}`);
    assert.ok(json.correlation > 0.8, `correlation: ${json.correlation}`);
  });

  it('shows the articles of a feed as soon as they have come, and what fails', async () => {
    const { key } = await site.ranker.storage.users.add('follower');
    await using context = await browser.newContext();
    const tab = await context.newPage();
    await tab.goto(`${site.url}/reader`);
    await tab.getByLabel('API key').fill(key);
    await tab.getByRole('button', { name: 'Log in' }).click();
    await tab.getByText('Nothing here yet').waitFor();
    const list = await context.newPage();
    await list.goto(`${site.url}/reader`);
    await tab.goto(`${site.url}/reader/feeds`);
    const add = async (url: string) => {
      await tab.getByLabel('Address of a feed').fill(url);
      await tab.getByRole('button', { name: 'Add', exact: true }).click();
    };
    await add(news.article('/page.html', 'No feed', 'Nothing but text.'));
    await tab.locator('.flash-error', { hasText: 'not_feed' }).waitFor();
    const link = `${news.url}/story`;
    const text = 'Swifts sleep on the wing. Tiny recorders show how long they rest at night.';
    const feed = `<rss version="2.0"><channel><title>Birds</title><link>${news.url}</link><item>
<title>Swifts at night</title><link>${link}</link><description>${text}</description></item>
</channel></rss>`;
    const address = news.page('/feed', (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed);
    });
    await add(address);
    await tab.locator('.flash', { hasText: 'Birds: added' }).waitFor();
    await item(list, 'Swifts at night').waitFor();
    await list.locator('.score[data-score]').waitFor();
    await tab.goto(`${site.url}/reader/feeds`);
    assert.match(await tab.locator('.rows li').innerText(), /Birds\s+1 article/);
  });
});
