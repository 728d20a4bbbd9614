import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { articlePane, type OpenArticle } from '../src/reader/article-pane.ts';
import { NewsSite } from './fixtures/news-site.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { until } from './fixtures/until.ts';
import { Visitor } from './fixtures/visitor.ts';

const titlesOf = (page: string): string[] =>
  [...page.matchAll(/<strong>([^<]+)<\/strong>\s*<span class="from">/g)].map(([, one = '']) => one);
const idOf = (page: string, title: string): string => {
  const found = [...page.matchAll(/data-article="([^"]+)"[\s\S]*?<strong>([^<]+)</g)];
  return String(found.find(([, , own]) => own?.includes(title))?.[1]);
};

/** The points of an open article as they are shown; the last one is the score. */
function pointsIn(page: string): number[] {
  const shown = page.matchAll(/<b class="num">([+−]?)(\d+\.\d)<\/b>/g);
  return [...shown].map(([, sign, value]) => (sign === '−' ? -1 : 1) * Number(value));
}

describe('an open article', () => {
  const query = { listing: 'unread', sorting: 'best', feed: '', words: [], count: 40, before: 0 };
  const paneOf = (points: Readonly<Record<string, number>>, score: number) => {
    const contributions = Object.entries(points).map(([reason, value]) => {
      return { reason, points: value };
    });
    const source = { host: 'dam.example', score: 5, ratings: 0 };
    const lists = { nearest: [], sentences: [], words: [] };
    const article = { title: 'A dam', text: 'The dam holds.', images: [] };
    const open = {
      listed: {
        id: 'a1',
        title: 'A dam',
        source: 'dam.example',
        publishedAt: 0,
        url: '',
        tags: [],
      },
      ranked: {
        article,
        score: { score, width: 1 },
        explained: { ...lists, contributions, source, isEnglish: true },
      },
      feedTitle: undefined,
      imagePath: String,
    };
    return articlePane(open as unknown as OpenArticle, query as never).toString();
  };

  it('has points that add up as they are shown, hidden and rounded ones too', () => {
    for (const points of [
      { start: 5.04, topic: 0.04, words: 0.14, source: 0.14, neighbours: 0.14 },
      { start: 5.46, topic: -0.16, words: -0.16, source: 0.04, age: 0.04 },
      { start: 5, topic: 1, unknown: -0.3 },
    ]) {
      const score = Object.values(points).reduce((sum, one) => sum + one, 0);
      const shown = pointsIn(paneOf(points, score));
      const total = shown.pop();
      const sum = shown.reduce((so, one) => so + one, 0);
      assert.equal(sum.toFixed(1), total?.toFixed(1), `${shown} make ${total}`);
    }
  });

  it('names its source once if it came by no feed', () => {
    const [, head = ''] = /<header>([\s\S]*?)<h2/.exec(paneOf({ start: 5 }, 5)) ?? [];
    assert.equal(head.split('dam.example').length - 1, 1, head);
  });
});

describe('the pages of the reader', () => {
  let site: RankerSite;
  let news: NewsSite;
  before(async () => {
    site = await RankerSite.open();
    news = await NewsSite.open();
  });
  after(async () => {
    await site[Symbol.asyncDispose]();
    await news[Symbol.asyncDispose]();
  });

  /** A new user with samples, logged in. */
  async function entered(name: string, hasSamples = true) {
    const { user, key } = await site.ranker.storage.users.add(name);
    if (hasSamples) await site.ranker.reader.addSamples(user.id);
    await site.ranker.embedding.idle();
    const visitor = new Visitor(site.url);
    await visitor.logIn(key);
    return { visitor, userId: user.id };
  }

  it('are shown to nobody without a key', async () => {
    const stranger = new Visitor(site.url);
    for (const path of ['/reader', '/reader/feeds', '/reader/rules', '/reader?open=a1']) {
      const answer = await stranger.get(path);
      assert.equal(answer.status, 303, path);
      assert.equal(answer.headers.get('location'), '/reader/login');
      assert.equal((await stranger.get(path, 'application/json')).status, 401, path);
    }
    const wrong = await stranger.post('/reader/login', { key: 'x' }, { from: '/reader/login' });
    assert.equal(wrong.status, 401);
    assert.match(await wrong.text(), /role="alert">\s*No user has this key/);
    const refused = await stranger.post('/articles/a1/vote', { score: '9' });
    assert.equal(refused.status, 401);
  });

  it('show an article with its text, and mark it as read when it is opened', async () => {
    const { visitor, userId } = await entered('opener');
    const list = await visitor.page('/reader');
    assert.equal(titlesOf(list).length, 9, 'ten articles, of which two tell the same');
    const id = idOf(list, 'Swifts sleep');
    const page = await visitor.page(`/reader?open=${id}`);
    assert.match(page, /<h2 id="title">Swifts sleep on the wing/);
    assert.match(page, /class="prose"><p>[^<]{40,}/);
    assert.match(page, /class="item read"/, 'it stays on the list while it is open');
    const [found] = await site.ranker.storage.userArticles.list({ userId, ids: [id], limit: 1 });
    assert.equal(found?.isRead, true);
    assert.equal(titlesOf(await visitor.page('/reader')).length, 8);
    await visitor.submit(`/articles/${id}/unread`);
    assert.equal(titlesOf(await visitor.page('/reader')).length, 9);
  });

  it('take a vote by a plain form, and say why in points that add up', async () => {
    const { visitor } = await entered('voter');
    const before = await visitor.page('/reader?list=all');
    const id = idOf(before, 'What a worker thread costs');
    const back = '/reader?list=all';
    const after = await visitor.submit(`/articles/${id}/vote`, { score: '10', back });
    assert.match(after, /You gave it 10\./);
    assert.match(after, /you gave 10/);
    assert.deepEqual(titlesOf(await visitor.page('/reader?list=rated')), [
      'What a worker thread costs, measured',
    ]);
    const other = idOf(before, 'Why a full queue');
    const why = await visitor.page(`/reader?open=${other}`);
    assert.match(why, /Why \d+\.\d\?/);
    const points = pointsIn(why);
    const total = points.pop() as number;
    const sum = points.reduce((so, one) => so + one, 0);
    assert.equal(sum.toFixed(1), total.toFixed(1), `${points} make ${total}`);
    assert.match(why, /8 of 10 of your ratings would be\s+from/);
    await visitor.submit(`/articles/${id}/unvote`);
    assert.match(await visitor.page('/reader?list=rated'), /You have rated nothing yet/);
  });

  it('star, save for later, and mark all as read, which can be taken back', async () => {
    const { visitor } = await entered('marker');
    const list = await visitor.page('/reader');
    const [one, two] = [idOf(list, 'Bread with three'), idOf(list, 'Red carpet')];
    await visitor.submit(`/articles/${one}/star`);
    await visitor.submit(`/articles/${two}/later`);
    assert.match(titlesOf(await visitor.page('/reader?list=starred')).join(), /^Bread/);
    assert.match(titlesOf(await visitor.page('/reader?list=later')).join(), /^Red carpet/);
    await visitor.submit(`/articles/${two}/unlater`);
    assert.equal(titlesOf(await visitor.page('/reader?list=later')).length, 0);
    const answer = await visitor.post('/articles/read-all', {}, { accept: 'application/json' });
    assert.equal(answer.status, 200);
    const { at } = (await answer.json()) as { readonly at: number };
    assert.match(await visitor.page('/reader'), /All read/);
    await visitor.submit('/articles/unread-all', { at: String(at) });
    assert.equal(titlesOf(await visitor.page('/reader')).length, 9);
  });

  it('show feeds in folders with what is unread, one feed alone, and change a feed', async () => {
    const { visitor } = await entered('folders', false);
    const stories = ['Swifts sleep on the wing', 'A reef grows again', 'Wolves in the valley'];
    const items = stories.map(
      (title, at) => `<item><title>${title}</title><link>${news.url}/s${at}</link>
<author>Ada</author><description>Read more about this</description></item>`,
    );
    const address = news.page('/birds', (_request, response) => {
      const head = '<rss version="2.0"><channel><title>Birds</title>';
      const feed = `${head}${items.join('')}</channel></rss>`;
      response.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed);
    });
    assert.match(await visitor.submit('/feeds', { url: address }), /Birds: added/);
    let page = '';
    // The articles of a list may be there a moment before what its feeds count.
    await until('three articles are listed and counted', async () => {
      page = await visitor.page('/reader?list=all&show=80');
      return /Birds<span class="count">3</.test(page) && titlesOf(page).length === 3;
    });
    const [, feed = ''] = /href="\/reader\?feed=([\w-]+)"/.exec(page) ?? [];
    const edit = { title: 'My birds', folder: 'Nature', full: 'yes' };
    await visitor.submit(`/feeds/${feed}/edit`, edit, '/reader/feeds');
    assert.match(await visitor.submit(`/feeds/${feed}/refresh`), /fetched now/);
    const stranger = await entered('stranger', false);
    const refused = await stranger.visitor.submit(`/feeds/${feed}/refresh`);
    assert.match(refused, /there is no subscription/);
    page = await visitor.page(`/reader?feed=${feed}`);
    assert.match(page, /<summary>Nature<span class="count">3/);
    assert.match(page, /<h1>My birds<\/h1>/);
    assert.equal(titlesOf(page).length, 3);
    const [, shared] = /data-article="([^"]+)"/.exec(page) ?? [];
    // All entries have it, so nothing is learned from it; it is shown all the same.
    assert.match(await visitor.page(`/reader?open=${shared}`), /<p>Read more about this<\/p>/);
    const opml = await (await visitor.get('/feeds/opml')).text();
    assert.match(opml, /<outline text="Nature">\s*<outline type="rss" text="My birds"/);
    const rule = JSON.stringify(['mute', 'feed', feed, 0]);
    await visitor.submit('/rules/quick', { rule });
    assert.equal(titlesOf(await visitor.page(`/reader?feed=${feed}`)).length, 0);
    await visitor.submit(`/feeds/${feed}/remove`, {}, '/reader/feeds');
  });

  it('say what a score is worth in a language that the model hardly knows', async () => {
    const { visitor, userId } = await entered('russian');
    const { userArticles } = site.ranker.storage;
    const text =
      'Центральный банк снова повысил ключевую ставку, чтобы сдержать рост цен. Аналитики ждут, ' +
      'что кредиты подорожают уже весной, а вклады станут заметно выгоднее для вкладчиков.';
    const now = Date.now();
    const article = {
      ...{ id: 'russian-text', url: 'text:russian', givenUrl: 'text:russian', source: '' },
      ...{ title: 'Банк повысил ставку', text, publishedAt: now, fetchedAt: now, addedAt: now },
      ...{ etag: undefined, lastModified: undefined, unavailable: undefined },
    };
    await userArticles.add(userId, [article], now);
    const note = /Words only: the model that compares meanings knows English best|Not in English/;
    assert.match(await visitor.page('/reader?open=russian-text'), note);
    const id = idOf(await visitor.page('/reader'), 'Swifts sleep');
    assert.doesNotMatch(await visitor.page(`/reader?open=${id}`), note);
  });

  it('send nobody elsewhere after a form, and take no form of another site', async () => {
    const { visitor } = await entered('guarded');
    const id = idOf(await visitor.page('/reader'), 'Bread with three');
    for (const back of ['//evil.example', 'https://evil.example', '/readerx', '/reader\n/x', '']) {
      const answer = await visitor.post(`/articles/${id}/star`, { back });
      assert.equal(answer.headers.get('location'), '/reader', back);
    }
    const forged = { article: id, score: '9', _csrf: 'other' };
    for (const path of [`/articles/${id}/vote`, '/votes', '/rules', '/feeds', '/feeds/opml']) {
      assert.equal((await visitor.post(path, forged)).status, 403, path);
    }
    const json = { accept: 'application/json' };
    for (const score of ['0', '11', 'x', '']) {
      const refused = await visitor.post(`/articles/${id}/vote`, { score }, json);
      assert.equal(refused.status, 422, score);
    }
    const missing = await visitor.post('/articles/nothing/vote', { score: '3' }, json);
    assert.equal(missing.status, 404);
  });

  it('search in titles and texts, group what two sites tell, mute and boost', async () => {
    const { visitor } = await entered('searcher');
    assert.match(await visitor.page('/reader'), /1 similar article/);
    const found = await visitor.page('/reader?q=Swifts%20GRAM');
    assert.deepEqual(titlesOf(found), ['Swifts sleep on the wing, tiny recorders show']);
    assert.match(await visitor.page('/reader?q=nowhere'), /Nothing found/);
    const boost = { kind: 'boost', field: 'words', value: 'bread', points: '4' };
    const rules = await visitor.submit('/rules', boost, '/reader/rules');
    assert.match(rules, /Boost “bread” by 4/);
    assert.match(String(titlesOf(await visitor.page('/reader'))[0]), /^Bread/);
    const slow = { kind: 'mute', field: 'pattern', value: '(a+)+$' };
    assert.match(await visitor.submit('/rules', slow, '/reader/rules'), /a pattern must be/);
    for (const rule of ['{}', 'x', '["mute","words","a",0]', '["mute","tag",5,0]']) {
      assert.match(await visitor.submit('/rules/quick', { rule }), /not a rule about/, rule);
    }
    const quoted = JSON.stringify(['mute', 'author', 'Jane "JJ" Doe', 0]);
    const added = await visitor.submit('/rules/quick', { rule: quoted });
    assert.match(added, /Mute Jane &quot;JJ&quot; Doe: added/);
  });
});
