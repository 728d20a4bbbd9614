import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { openBrowser } from 'spillway-fixtures/browser';
import { NewsSite } from './fixtures/news-site.ts';
import { png } from './fixtures/pictures.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { storedArticle } from './fixtures/stored-ranker.ts';

const contrast = readFileSync(join(import.meta.dirname, 'fixtures', 'contrast.js'), 'utf8');

const idsIn = (tab: Page): Promise<string[]> =>
  tab.locator('li[data-article]').evaluateAll((items) => items.map(({ id }) => id));
const says = (tab: Page, text: string): Promise<void> =>
  tab.locator('#status', { hasText: text }).waitFor();
const counts = async (tab: Page, count: number): Promise<void> => {
  await tab.locator('li[data-article]').nth(count).waitFor({ state: 'detached' });
  assert.equal((await idsIn(tab)).length, count);
};

describe('the reader in a browser', () => {
  let browser: Browser;
  let site: RankerSite;
  before(async () => {
    browser = await openBrowser();
    site = await RankerSite.open();
  });
  after(async () => {
    await browser?.close();
    await site[Symbol.asyncDispose]();
  });

  async function entered(name: string, options: BrowserContextOptions = {}) {
    const { user, key } = await site.ranker.storage.users.add(name);
    await site.ranker.reader.addSamples(user.id);
    await site.ranker.embedding.idle();
    const context = await browser.newContext(options);
    const tab = await context.newPage();
    tab.on('pageerror', (error) => assert.fail(error));
    await tab.goto(`${site.url}/reader`);
    await tab.getByLabel('API key').fill(key);
    await tab.getByRole('button', { name: 'Log in' }).click();
    await tab.waitForURL('**/reader');
    return { tab, userId: user.id, key };
  }

  it('opens, stars, rates and takes back by keys, and goes on with the next', async () => {
    const { tab, userId } = await entered('keys');
    const { ratings, userArticles } = site.ranker.storage;
    await tab.evaluate('window.isTheSamePage = true');
    const first = await idsIn(tab);
    assert.equal(first.length, 9);
    for (const key of 'jjk') await tab.keyboard.press(key);
    const loads: string[] = [];
    tab.on('request', (request) => {
      if (request.url().includes('open=')) loads.push(request.url());
    });
    await tab.keyboard.press('o');
    await tab.locator(`#article[data-open="${String(first[0]).slice(2)}"] .prose p`).waitFor();
    assert.match(tab.url(), /open=/);
    await tab.locator(`#${first[0]} .item.read.here`).waitFor();
    assert.equal(loads.length, 1, 'an article is loaded once');
    // What is open stays as it is: a menu, or a place in the text.
    await tab.getByText('More', { exact: true }).click();
    await tab.getByRole('button', { name: 'Mark unread' }).waitFor();
    await tab.keyboard.press('s');
    await tab.getByRole('button', { name: 'Starred', pressed: true }).waitFor();
    await tab.keyboard.press('9');
    await says(tab, 'Rated 9: ');
    await counts(tab, 8);
    assert.equal((await ratings.list(userId))[0]?.score, 9);
    await tab.getByRole('button', { name: '9 of 10', pressed: true }).waitFor();
    assert.equal(await tab.evaluate('window.isTheSamePage'), true);
    await tab.keyboard.press('u');
    await says(tab, 'Taken back: ');
    assert.deepEqual(await ratings.list(userId), []);
    const [found] = await userArticles.list({ userId, mark: 'starred', limit: 5 });
    assert.equal(found?.isStarred, true);
    await tab.keyboard.press('A');
    await says(tab, 'All read');
    await counts(tab, 0);
    await tab.keyboard.press('u');
    await says(tab, 'They are unread again');
    await tab.locator('li[data-article]').nth(7).waitFor();
    // A phone has no keys.
    await tab.getByRole('button', { name: 'Mark all read' }).click();
    await counts(tab, 0);
    await tab.getByRole('button', { name: 'Take back' }).click();
    await tab.locator('li[data-article]').nth(7).waitFor();
    await tab.context().close();
  });

  it('renews a token that is too old, and says what was not kept', async () => {
    const { tab } = await entered('token');
    await tab.keyboard.press('7');
    await says(tab, 'Choose an article first');
    await tab.evaluate("document.querySelector('#act [name=_csrf]').value = 'old'");
    await tab.keyboard.press('j');
    await tab.keyboard.press('7');
    await says(tab, 'Rated 7: ');
    await counts(tab, 8);
    await tab.evaluate("document.querySelector('li[data-article]').dataset.article = 'nothing'");
    await tab.keyboard.press('j');
    await tab.locator('li[data-article]').first().locator('a').focus();
    await tab.keyboard.press('7');
    await says(tab, 'Not done');
    await tab.context().close();
  });

  it('shows what was loaded without a connection, and nothing of it after the logout', async () => {
    const { tab } = await entered('offline');
    await tab.evaluate('navigator.serviceWorker.ready.then(() => {})');
    await tab.waitForFunction('navigator.serviceWorker.controller !== null');
    await tab.reload();
    await tab.locator('a.item').first().click();
    await tab.locator('.prose p').first().waitFor();
    const text = await tab.locator('.prose').textContent();
    const address = tab.url();
    const context = tab.context();
    await context.setOffline(true);
    await tab.goto(address);
    assert.equal(await tab.locator('.prose').textContent(), text);
    assert.notEqual(await tab.evaluate('getComputedStyle(document.body).margin'), '8px', 'styled');
    await context.setOffline(false);
    await tab.goto(`${site.url}/reader`);
    await tab.getByRole('button', { name: 'Log out' }).click();
    await tab.getByLabel('API key').waitFor();
    await context.setOffline(true);
    await tab.goto(address);
    await tab.getByText('There is no connection').waitFor();
    await context.close();
  });

  it('shows pictures by its own server alone, their text if they cannot be had', async () => {
    await using news = await NewsSite.open();
    news.page('/ferry.png', (_request, response) => {
      response.writeHead(200, { 'content-type': 'image/png' }).end(png(300, 200));
    });
    const { tab, userId } = await entered('pictures');
    const { reader, storage } = site.ranker;
    const feed = { url: `${news.url}/feed`, title: 'Port', folder: '' };
    await storage.feeds.subscribe(userId, [feed], Date.now());
    const feedId = String((await storage.feeds.list(userId))[0]?.id);
    const images = [
      { url: `${news.url}/ferry.png`, alt: 'A ferry', at: 0 },
      { url: `${news.url}/gone.png`, alt: 'What is gone', at: 12 },
    ];
    const text = 'It comes at nine.\n\nAnd it leaves at ten.';
    const url = `${news.url}/ferry`;
    await reader.saveFetch({
      ...{ feedId, fetchedAt: Date.now(), nextAt: 9e15, outcome: 'new', title: 'Port' },
      ...{ siteUrl: undefined, etag: undefined, lastModified: undefined },
      articles: [{ url, title: 'The ferry', text, publishedAt: Date.now(), images }],
    });
    await site.ranker.embedding.idle();
    await tab.evaluate('navigator.serviceWorker.ready.then(() => {})');
    await tab.reload();
    const asked = new Set<string>();
    tab.on('request', (request) => asked.add(new URL(request.url()).origin));
    await tab.goto(`${site.url}/reader?feed=${feedId}`);
    await tab.locator('a.item', { hasText: 'The ferry' }).click();
    const isShown = async () => {
      await tab.locator('.prose img').first().waitFor();
      // A picture that is not decoded yet has no width.
      const first = "document.querySelector('.prose img')";
      const decoded = `${first}.decode().then(() => ${first}.naturalWidth)`;
      const width = await tab.evaluate(decoded);
      assert.equal(width, 300);
    };
    await isShown();
    await tab.locator('.prose .no-image', { hasText: 'What is gone' }).waitFor();
    assert.equal(await tab.locator('.prose > *').count(), 4);
    assert.deepEqual([...asked], [site.url]);
    const address = tab.url();
    await tab.context().setOffline(true);
    await tab.goto(address);
    await isShown();
    await tab.context().close();
  });

  it('has what was typed before a session ended, for who typed it, until it is taken', async () => {
    const { tab, key } = await entered('typed');
    const other = await site.ranker.storage.users.add('typed-other');
    const logIn = async (own: string) => {
      await tab.goto(`${site.url}/reader`);
      await tab.getByLabel('API key').fill(own);
      await tab.getByRole('button', { name: 'Log in' }).click();
      await tab.waitForURL('**/reader');
    };
    const typed = tab.getByLabel('Words, site, feed');
    await tab.goto(`${site.url}/reader/rules`);
    await tab.getByLabel('What to do').selectOption('boost');
    await typed.fill('migrating swifts');
    await tab.context().clearCookies();
    await tab.getByRole('button', { name: 'Add' }).click();
    await tab.waitForLoadState();
    await logIn(other.key);
    await tab.goto(`${site.url}/reader/rules`);
    assert.equal(await typed.inputValue(), '');
    await tab.context().clearCookies();
    await logIn(key);
    await tab.goto(`${site.url}/reader/rules`);
    assert.equal(await typed.inputValue(), 'migrating swifts');
    assert.equal(await tab.getByLabel('What to do').inputValue(), 'boost');
    await tab.getByRole('button', { name: 'Add' }).click();
    await tab.getByText('Boost “migrating swifts” by 2: added.').waitFor();
    await tab.waitForLoadState();
    assert.equal(await typed.inputValue(), '');
    await tab.context().close();
  });

  it('reads a list of feeds from a file in its own encoding', async () => {
    const { tab } = await entered('file');
    await tab.goto(`${site.url}/reader/feeds`);
    const text = '<?xml version="1.0" encoding="ISO-8859-1"?><opml><!-- Größe --></opml>';
    const buffer = Buffer.from(text, 'latin1');
    const file = { name: 'feeds.opml', mimeType: 'text/x-opml', buffer };
    await tab.locator('[data-fills=opml] input').setInputFiles(file);
    await tab.waitForFunction("document.querySelector('#opml').value.includes('Größe')");
    await tab.context().close();
  });

  it('fills no credentials in again', async () => {
    const { tab } = await entered('credentials');
    await tab.goto(`${site.url}/reader/feeds`);
    await tab.getByLabel('Address of a feed').fill('http://127.0.0.1:1/feed');
    await tab.getByText('The feed needs a password').click();
    await tab.getByLabel('User name').first().fill('ada');
    await tab.getByLabel('Password', { exact: true }).first().fill('a secret');
    await tab.getByRole('button', { name: 'Add' }).click();
    await tab.locator('.flash-error').waitFor();
    // What was typed is filled in by a script, which runs once the page is there.
    await tab.waitForLoadState();
    assert.equal(await tab.getByLabel('Address of a feed').inputValue(), 'http://127.0.0.1:1/feed');
    assert.equal(await tab.locator('input[name=name]').first().inputValue(), '');
    assert.equal(await tab.locator('input[name=password]').first().inputValue(), '');
    await tab.context().close();
  });

  it('works without any script', async () => {
    const { tab } = await entered('plain', { javaScriptEnabled: false });
    await tab.locator('a.item').first().click();
    await tab.locator('.prose p').first().waitFor();
    await tab.getByRole('button', { name: '1 of 10', exact: true }).click();
    await tab.locator('.flash', { hasText: 'You gave it 1.' }).waitFor();
    await tab.goto(`${site.url}/reader?q=bread`);
    await tab.getByText('1 story found').waitFor();
    await tab.context().close();
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`can be read and used on a phone, ${colorScheme}`, async () => {
      const viewport = { width: 360, height: 740 };
      const { tab, userId } = await entered(`phone-${colorScheme}`, { viewport, colorScheme });
      const [one = '', two = '', three = ''] = (await idsIn(tab)).map((id) => id.slice(2));
      await site.ranker.ranking.vote(userId, one, 9, AbortSignal.timeout(30_000));
      await site.ranker.ranking.vote(userId, two, 1, AbortSignal.timeout(30_000));
      for (const path of [
        '/reader?list=all',
        '/reader/feeds',
        '/reader/rules',
        `/reader?open=${three}#article`,
      ]) {
        await tab.goto(`${site.url}${path}`);
        const faint = await tab.evaluate(`${contrast.replace('export ', '')}; faintTexts()`);
        assert.deepEqual(faint, [], path);
        const wide = await tab.evaluate('document.documentElement.scrollWidth');
        assert.equal(wide, 360, `${path} is wider than the screen`);
        const unnamed = await tab.evaluate(
          "document.querySelectorAll('input:not([type=hidden]), textarea, select')" +
            '.values().filter(({ labels }) => labels.length === 0).toArray().length',
        );
        assert.equal(unnamed, 0, `${path} has fields without a label`);
      }
      assert.equal(await tab.locator('.list').isVisible(), false, 'one pane at a time');
      const word = 'x'.repeat(300);
      const title = `${word} ${colorScheme}`;
      const long = storedArticle(`https://example.org/${colorScheme}`, { title, text: word });
      await site.ranker.storage.userArticles.add(userId, [long], 1);
      await tab.goto(`${site.url}/reader?open=${long.id}#article`);
      const hidden = "document.querySelector('.sheet').scrollWidth - innerWidth";
      assert.ok(Number(await tab.evaluate(hidden)) <= 0, 'a long word makes it wider');
      await tab.goto(`${site.url}/reader?open=${three}#article`);
      const small = await tab.locator('.scale button').evaluateAll(
        (buttons) =>
          buttons.filter((button) => {
            const { width, height } = button.getBoundingClientRect();
            return width < 24 || height < 24;
          }).length,
      );
      assert.equal(small, 0, 'buttons too small for a finger');
      await tab.getByRole('link', { name: 'Back to the list' }).click();
      await tab.locator('a.item').first().waitFor();
      await tab.getByRole('button', { name: 'Mark all read' }).waitFor();
      await tab.getByRole('link', { name: 'Feeds', exact: true }).click();
      assert.equal(await tab.locator('.list').isVisible(), false, 'lists instead of the list');
      await tab.getByRole('link', { name: 'Starred' }).click();
      await tab.waitForURL('**/reader?list=starred');
      await tab.locator('.list').waitFor();
      await tab.context().close();
    });
  }
});
