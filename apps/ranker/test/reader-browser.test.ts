import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { openBrowser } from 'spillway-fixtures/browser';
import { ReaderSite } from './fixtures/reader-site.ts';

const contrast = readFileSync(join(import.meta.dirname, 'fixtures', 'contrast.js'), 'utf8');

/** The ids of the articles in the order they are shown. */
const idsIn = (tab: Page): Promise<string[]> =>
  tab.locator('li[data-article]').evaluateAll((items) => items.map(({ id }) => id));
/** The id of the article that has the focus. */
const focused = (tab: Page): Promise<string> =>
  tab.evaluate('document.activeElement.closest("li[data-article]")?.id ?? ""');
const says = (tab: Page, text: string): Promise<void> =>
  tab.locator('#status', { hasText: text }).waitFor();
const counts = async (tab: Page, count: number): Promise<void> => {
  await tab.locator('li[data-article]').nth(count).waitFor({ state: 'detached' });
  assert.equal((await idsIn(tab)).length, count);
};

describe('the reader in a browser', () => {
  let browser: Browser;

  before(async () => {
    browser = await openBrowser();
  });

  after(() => browser?.close());

  async function entered(site: ReaderSite, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await browser.newContext(options);
    const tab = await context.newPage();
    tab.on('pageerror', (error) => assert.fail(error));
    await tab.goto(`${site.url}/reader`);
    await tab.getByLabel('API key').fill(site.store.apiKey);
    await tab.getByRole('button', { name: 'Log in' }).click();
    await tab.waitForURL('**/reader');
    return tab;
  }

  it('rates by one key, re-orders at once in every tab, and goes on with the next', async () => {
    await using site = await ReaderSite.open();
    const tab = await entered(site);
    const other = await tab.context().newPage();
    await other.goto(`${site.url}/reader?list=all`);
    await tab.evaluate('window.isTheSamePage = true');
    const first = await idsIn(tab);
    for (const key of 'jjk') await tab.keyboard.press(key);
    assert.equal(await focused(tab), first[0]);
    await tab.keyboard.press('j');
    const voted = String(first[1]).slice(2);
    await tab.keyboard.press('9');
    await says(tab, 'Rated 9: ');
    await counts(tab, 8);
    assert.deepEqual([...site.store.votes], [[voted, 9]]);
    const second = await idsIn(tab);
    const left = first.filter((id) => id !== `a-${voted}`);
    assert.deepEqual(new Set(second), new Set(left));
    assert.notDeepEqual(second, left, 'the order has changed');
    assert.equal(await focused(tab), second[1], 'the article now in its place');
    assert.equal(await tab.evaluate('window.isTheSamePage'), true);
    await other.locator(`#a-${voted} .yours`, { hasText: 'you gave 9' }).waitFor();
    await tab.keyboard.press('0');
    await counts(tab, 7);
    assert.equal(site.store.votes.get(String(second[1]).slice(2)), 10);
    await tab.keyboard.press('x');
    await counts(tab, 6);
    assert.equal(site.store.read.size, 1);
    // A vote that came by another way, such as the API.
    const [top = ''] = await idsIn(tab);
    await site.store.vote('u1', { articleId: top.slice(2), score: 2 });
    await counts(tab, 5);
    await tab.context().close();
  });

  it('takes a rating back by one key, or by the button that is pressed', async () => {
    await using site = await ReaderSite.open();
    const tab = await entered(site);
    for (const key of 'j7') await tab.keyboard.press(key);
    await counts(tab, 8);
    await tab.keyboard.press('u');
    await says(tab, 'Taken back: ');
    await tab.locator('li[data-article]').nth(8).waitFor();
    assert.equal(site.store.votes.size, 0);
    await tab.keyboard.press('u');
    await says(tab, 'There is no rating of this page to take back.');
    await site.store.vote('u1', { articleId: 'a0', score: 3 });
    await tab.goto(`${site.url}/reader?list=rated`);
    await tab.getByRole('button', { name: '3 of 10', pressed: true }).click();
    await tab.getByText('You have rated nothing yet').waitFor();
    assert.equal(site.store.votes.size, 0);
  });

  it('says why in place, and gives the focus back', async () => {
    await using site = await ReaderSite.open();
    await site.store.vote('u1', { articleId: 'a0', score: 9 });
    const tab = await entered(site);
    await tab.keyboard.press('j');
    const here = await focused(tab);
    await tab.keyboard.press('w');
    const dialog = tab.getByRole('dialog', { name: 'Why this score' });
    await dialog.waitFor();
    assert.match(await dialog.innerText(), /most similar that you rated[\s\S]*counted most/);
    // Keys are for the dialog now.
    await tab.keyboard.press('9');
    await tab.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.equal(await focused(tab), here);
    assert.equal(site.store.votes.size, 1);
    await tab.context().close();
  });

  it('says when a vote was not kept, and renews a token that is too old by itself', async () => {
    await using site = await ReaderSite.open();
    const tab = await entered(site);
    await tab.keyboard.press('7');
    await says(tab, 'Choose an article first');
    site.store.failure = new Error('no disk');
    await tab.keyboard.press('j');
    await tab.keyboard.press('7');
    await says(tab, 'not done');
    assert.equal((await idsIn(tab)).length, 9);
    await tab.evaluate("document.querySelector('#act [name=_csrf]').value = 'old'");
    await tab.keyboard.press('7');
    await says(tab, 'Rated 7: ');
    await counts(tab, 8);
    await tab.context().close();
  });

  it('mutes from an article, searches by key and reads an OPML file', async () => {
    await using site = await ReaderSite.open();
    const tab = await entered(site);
    const item = tab.locator('li', { hasText: 'Red carpet' });
    await item.getByText('Rules').click();
    await item.getByRole('button', { name: 'Mute stagedoor.example' }).click();
    await says(tab, 'Rule added');
    await counts(tab, 7);
    await tab.keyboard.press('/');
    await tab.keyboard.type('swifts');
    await tab.keyboard.press('Enter');
    await tab.getByRole('heading', { name: '1 story with' }).waitFor();
    await tab.getByRole('link', { name: 'Feeds' }).click();
    const text = '<opml><outline xmlUrl="https://a.example/feed"/></opml>';
    const file = { name: 'feeds.opml', mimeType: 'text/xml', buffer: Buffer.from(text) };
    await tab.getByLabel('or choose its file').setInputFiles(file);
    await tab.locator('#opml:valid').waitFor();
    await tab.getByRole('button', { name: 'Import' }).click();
    await tab.getByText('1 feed imported.').waitFor();
    assert.equal(site.store.known[0]?.url, 'https://a.example/feed');
    await tab.context().close();
  });

  it('rates, re-orders and searches without any script', async () => {
    await using site = await ReaderSite.open();
    const tab = await entered(site, { javaScriptEnabled: false });
    const first = await tab.locator('h2').first().innerText();
    await tab
      .locator('li[data-article]')
      .first()
      .getByRole('button', { name: '1 of 10', exact: true })
      .click();
    await tab.getByText('You gave it 1.').waitFor();
    assert.notEqual(await tab.locator('h2').first().innerText(), first);
    await tab.getByRole('searchbox', { name: 'Search' }).fill('bread');
    await tab.getByRole('button', { name: 'Search' }).click();
    await tab.getByRole('heading', { name: '1 story with' }).waitFor();
    await tab.getByRole('link', { name: 'Why?' }).click();
    await tab.getByRole('heading', { name: /^Why \d/ }).waitFor();
    await tab.context().close();
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`can be read and used on a phone, ${colorScheme}`, async () => {
      await using site = await ReaderSite.open();
      await site.store.vote('u1', { articleId: 'a0', score: 9 });
      await site.store.vote('u1', { articleId: 'a1', score: 1 });
      const viewport = { width: 360, height: 740 };
      const tab = await entered(site, { viewport, colorScheme });
      for (const path of [
        '/reader?list=all',
        '/reader/feeds',
        '/reader/rules',
        '/reader/articles/a2/why',
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
      const small = await tab.goto(`${site.url}/reader?list=all`).then(() =>
        tab.locator('.scale button').evaluateAll(
          (buttons) =>
            buttons.filter((button) => {
              const { width, height } = button.getBoundingClientRect();
              return width < 24 || height < 24;
            }).length,
        ),
      );
      assert.equal(small, 0, 'buttons too small for a finger');
      await tab.context().close();
    });
  }
});
