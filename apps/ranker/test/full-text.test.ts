import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { NewsSite, storyOf } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { until } from './fixtures/until.ts';
import { Visitor } from './fixtures/visitor.ts';

describe('the whole text of an entry', () => {
  const stack = new AsyncDisposableStack();
  let site: RankerSite;
  let news: NewsSite;
  let visitor: Visitor;
  before(async () => {
    news = stack.use(await NewsSite.open());
    site = stack.use(await RankerSite.open());
    visitor = new Visitor(site.url);
    await visitor.logIn(site.key);
  });
  after(() => stack.disposeAsync());

  const texts = async () => {
    const { userArticles, articles } = site.ranker.storage;
    const listed = await userArticles.list({ userId: site.userId, limit: 10 });
    const found = await articles.list(listed.map(({ id }) => id));
    return new Map(found.map(({ title, text }) => [title, text]));
  };
  const comes = (title: string, words: RegExp) =>
    until(`${title} has the text ${words}`, async () => {
      return words.test((await texts()).get(title) ?? '');
    });

  it('is fetched when the feed is set to, also where it has much already', async () => {
    const summary = 'Only the summary of it stands in the feed. '.repeat(30);
    // Its page calls itself otherwise.
    news.article('/long', 'Home of the port', storyOf('harbour', 'ferry'));
    const address = news.page('/feed', (_request, response) => {
      const item = `<item><title>Long</title><link>${news.url}/long</link>
<pubDate>Mon, 06 May 2024 07:08:09 GMT</pubDate>
<enclosure type="image/png" url="${news.url}/ferry.png"/>
<description>${summary}</description></item>`;
      const feed = `<rss version="2.0"><channel><title>Port</title>${item}</channel></rss>`;
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed);
    });
    await visitor.submit('/feeds', { url: address });
    await comes('Long', /Only the summary/);
    await site.ranker.embedding.idle();
    assert.equal(news.asked.get('/long'), undefined);
    const { feeds } = site.ranker.storage;
    const [feed] = await feeds.list(site.userId);
    await visitor.submit(`/feeds/${feed?.id}/edit`, { title: '', folder: '', full: 'yes' });
    await comes('Long', /The harbour and the ferry met again/);
    const [found] = await site.ranker.storage.userArticles.list({ userId: site.userId, limit: 1 });
    const whole = await site.ranker.storage.articles.find(String(found?.id));
    assert.equal(whole?.publishedAt, Date.UTC(2024, 4, 6, 7, 8, 9), 'the page has no date');
    assert.equal(whole?.images?.[0]?.url, `${news.url}/ferry.png`, 'nor a picture');
  });

  it('is found behind a link that leads to another address', async () => {
    const target = news.article('/real', 'Moved', storyOf('lantern', 'bridge'));
    news.page('/go', (_request, response) => response.writeHead(302, { location: target }).end());
    const address = news.page('/links', (_request, response) => {
      const item = `<item><title>Moved</title><link>${news.url}/go</link></item>`;
      const feed = `<rss version="2.0"><channel><title>Links</title>${item}</channel></rss>`;
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed);
    });
    await visitor.submit('/feeds', { url: address });
    await comes('Moved', /The lantern and the bridge met again/);
  });

  it('is shown whole where other entries share paragraphs of it, to clients too', async () => {
    const stories = ['Swifts sleep on the wing', 'A reef grows again', 'Wolves in the valley'];
    const items = stories.map(
      (title, at) => `<item><title>${title}</title><link>${news.url}/gone${at}</link><description>
&lt;p&gt;This letter comes every week.&lt;/p&gt;&lt;p&gt;${title}, and nobody knew why.&lt;/p&gt;
&lt;p&gt;Write to us whenever you like.&lt;/p&gt;</description></item>`,
    );
    const address = news.page('/letter', (_request, response) => {
      const feed = `<rss version="2.0"><channel><title>Letter</title>${items.join('')}
</channel></rss>`;
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed);
    });
    await visitor.submit('/feeds', { url: address });
    const [first = ''] = stories;
    await comes(first, /^Swifts sleep on the wing, and nobody knew why\.$/);
    const list = await site.ranker.storage.userArticles.list({ userId: site.userId, limit: 10 });
    const id = list.find(({ title }) => title === first)?.id;
    const page = await visitor.page(`/reader?open=${id}`);
    const prose = page.slice(page.indexOf('class="prose"')).replace(/<\/?mark[^>]*>/g, '');
    assert.match(prose, /<p>This letter comes every week\.<\/p><p>Swifts sleep/);
    assert.match(prose, /<p>Write to us whenever you like\.<\/p>/);
    const headers = { authorization: `GoogleLogin auth=${site.key}` };
    const path = '/greader/reader/api/0/stream/contents/user/-/state/com.google/reading-list';
    const contents = await (await fetch(`${site.url}${path}`, { headers })).text();
    assert.match(contents, /every week\.<\/p><p>Swifts sleep on the wing, and nobody knew/);
  });
});
