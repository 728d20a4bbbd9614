import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { rankerError } from '../src/errors.ts';
import type { ReaderFeed } from '../src/reader/reader-store.ts';
import { ReaderSite, wallClock } from './fixtures/reader-site.ts';
import { Visitor } from './fixtures/visitor.ts';

async function entered(options: { readonly samples?: boolean } = {}) {
  const site = await ReaderSite.open(options);
  const visitor = new Visitor(site.url);
  await visitor.logIn(site.store.apiKey);
  return { site, visitor, store: site.store };
}

const titlesOf = (page: string): string[] =>
  [...page.matchAll(/<h2 id="t-[^"]+"><(?:a|span)[^>]*>\s*([^<]+)</g)].map(
    ([, title = '']) => title,
  );
const idOf = (page: string, title: string): string => {
  const found = [...page.matchAll(/<h2 id="t-([^"]+)"><(?:a|span)[^>]*>\s*([^<]+)</g)];
  return String(found.find(([, , own]) => own?.includes(title))?.[1]);
};

describe('the pages of the reader', () => {
  it('are shown to nobody without a key', async () => {
    await using site = await ReaderSite.open();
    const stranger = new Visitor(site.url);
    for (const path of ['/reader', '/reader/feeds', '/reader/rules', '/reader/articles/a1/why']) {
      const answer = await stranger.get(path);
      assert.equal(answer.status, 303, path);
      assert.equal(answer.headers.get('location'), '/reader/login');
      assert.equal((await stranger.get(path, 'application/json')).status, 401, path);
    }
    assert.equal((await stranger.get('/reader/_live', 'text/event-stream')).status, 401);
    const wrong = await stranger.post('/reader/login', { key: 'x' }, { from: '/reader/login' });
    assert.equal(wrong.status, 401);
    assert.match(await wrong.text(), /role="alert">\s*No user has this key/);
    const vote = { from: '/reader/login' };
    const refused = await stranger.post('/reader/articles/a1/vote', { score: '9' }, vote);
    assert.equal(refused.status, 401);
    assert.equal(site.store.votes.size, 0);
  });

  it('let in who has a key, and out again', async () => {
    const { site, visitor } = await entered();
    await using _site = site;
    assert.match(await visitor.page('/reader'), /9 stories to read/);
    assert.equal((await visitor.get('/reader/login')).headers.get('location'), '/reader');
    await visitor.post('/reader/logout');
    assert.equal((await visitor.get('/reader')).status, 303);
  });

  it('take a vote by a plain form, and come back in another order', async () => {
    const { site, visitor, store } = await entered();
    await using _site = site;
    const before = await visitor.page('/reader?list=all');
    const id = idOf(before, 'What a worker thread costs');
    const fields = { score: '10', back: '/reader?list=all' };
    const after = await visitor.submit(`/reader/articles/${id}/vote`, fields);
    assert.equal(store.votes.get(id), 10);
    assert.match(after, /You gave it 10\./);
    assert.match(after, /you gave 10/);
    assert.match(after, /aria-pressed="true"[^>]*>10</);
    assert.match(after, /Accuracy over 1 first rating: 1\.3 points off on average, 0\.4 too low/);
    assert.equal(titlesOf(after).length, titlesOf(before).length);
    const alike = 'Why a full queue should say no';
    assert.ok(titlesOf(before).indexOf(alike) > 0);
    assert.equal(titlesOf(after).indexOf(alike), 0);
    assert.match(await visitor.page('/reader'), /8 stories to read/);
    assert.deepEqual(titlesOf(await visitor.page('/reader?list=rated')), [
      'What a worker thread costs, measured',
    ]);
  });

  it('answer a script with 204, or with the error itself', async () => {
    const { site, visitor, store } = await entered();
    await using _site = site;
    const json = { accept: 'application/json' };
    const vote = (score: string) => visitor.post('/reader/articles/a1/vote', { score }, json);
    assert.equal((await vote('3')).status, 204);
    for (const score of ['0', '11', '50', '-1', '5.5', 'x', '']) {
      assert.equal((await vote(score)).status, 422, score);
    }
    store.failure = rankerError('RECORD_UNKNOWN', 'no such article');
    const missing = await vote('3');
    assert.equal(missing.status, 404);
    assert.equal(Object(await missing.json()).error.code, 'RECORD_UNKNOWN');
    store.failure = rankerError('RECORD_UNKNOWN', 'no such article');
    const page = await visitor.submit('/reader/articles/a1/vote', { score: '3' });
    assert.match(page, /flash-error"[^>]*>no such article/);
    store.failure = new Error('disk on fire');
    assert.equal((await vote('3')).status, 500);
    assert.deepEqual([...store.votes], [['a1', 3]]);
  });

  it('make no change that another site has sent', async () => {
    const { site, visitor, store } = await entered();
    await using _site = site;
    const token = { _csrf: 'of another' };
    const answer = await visitor.post('/reader/articles/a1/vote', { score: '9', ...token });
    assert.equal(answer.status, 403);
    assert.equal(store.votes.size, 0);
  });

  it('send nobody elsewhere after a form', async () => {
    const { site, visitor } = await entered();
    await using _site = site;
    for (const back of ['//evil.example', 'https://evil.example', '/readerx', '/reader\n/x', '']) {
      const answer = await visitor.post('/reader/articles/a1/done', { back });
      assert.equal(answer.headers.get('location'), '/reader', back);
    }
    const own = await visitor.post('/reader/articles/a2/done', {
      back: '/reader?q=bridge&show=80',
    });
    assert.equal(own.headers.get('location'), '/reader?q=bridge&show=80');
  });

  it('group stories that two sites tell, and search in titles and texts', async () => {
    const { site, visitor } = await entered();
    await using _site = site;
    const page = await visitor.page('/reader');
    assert.match(page, /<summary>1 more tells this<\/summary>/);
    const found = await visitor.page('/reader?q=Swifts%20GRAM');
    assert.deepEqual(titlesOf(found), ['Swifts sleep on the wing, tiny recorders show']);
    assert.match(found, /value="swifts gram"/);
    assert.match(await visitor.page('/reader?q=nowhere'), /Nothing found/);
    assert.match(await visitor.page('/reader?q=%3Cscript%3E'), /stories with|story with|Nothing/);
  });

  it('mute and boost from an article, and say what the rules are', async () => {
    const { site, visitor, store } = await entered();
    await using _site = site;
    const page = await visitor.page('/reader');
    const [, value = ''] = /value="([^"]*mute[^"]*stagedoor[^"]*)"/.exec(page) ?? [];
    const rule = value.replaceAll('&quot;', '"');
    const muted = await visitor.submit('/reader/rules/quick', { rule });
    assert.ok(!muted.includes('Red carpet'));
    assert.match(muted, /2 kept away by your rules/);
    const boost = { kind: 'boost', field: 'words', value: 'bread', points: '4' };
    const rules = await visitor.submit('/reader/rules', boost, '/reader/rules');
    assert.match(rules, /Mute stagedoor\.example/);
    assert.match(rules, /Boost “bread” by 4/);
    assert.equal(
      titlesOf(await visitor.page('/reader'))[0],
      'Bread with three ingredients and a lot of time',
    );
    const slow = { kind: 'mute', field: 'pattern', value: '(a+)+$' };
    const refused = await visitor.submit('/reader/rules', slow, '/reader/rules');
    assert.match(refused, /flash-error"[^>]*>a pattern must be whole/);
    for (const wrong of ['["mute","words","x",0]', '{}', '["mute","source","a\\u0022",0]']) {
      assert.match(
        await visitor.submit('/reader/rules/quick', { rule: wrong }),
        /not a rule about/,
      );
    }
    assert.equal(store.rulesKept.length, 2);
    await visitor.submit('/reader/rules/r0/remove');
    assert.ok((await visitor.page('/reader')).includes('Red carpet'));
    assert.match(await visitor.page('/reader/rules?field=pattern&value=a%22b'), /value="a&quot;b"/);
  });

  it('add feeds that are feeds, show the last error of each, and move them as OPML', async () => {
    const { site, visitor, store } = await entered();
    await using _site = site;
    const add = (url: string) => visitor.submit('/reader/feeds', { url }, '/reader/feeds');
    assert.match(await add('https://a.example/feed'), /A feed &lt;1&gt;: added/);
    assert.equal(site.looks, 1);
    assert.match(await add('https://nothing.example/'), /not_feed: no feed is there/);
    assert.match(await add('javascript:alert(1)'), /begins with https/);
    assert.match(await add('not a url'), /begins with https/);
    assert.equal(store.known.length, 1);
    const nextAt = wallClock.now() + 300_000;
    store.known.push({
      ...(store.known[0] as ReaderFeed),
      id: 'f9',
      failure: 'dns: <gone>',
      failures: 3,
      nextAt,
    });
    const shown = await visitor.page('/reader/feeds');
    assert.match(shown, /Last error<\/strong> \(3 times in a row\): dns: &lt;gone&gt;/);
    assert.match(shown, /again in 5 min/);
    const file = await visitor.get('/reader/feeds.opml');
    assert.match(String(file.headers.get('content-type')), /^text\/x-opml/);
    const opml = await file.text();
    assert.match(opml, /text="A feed &lt;1&gt;"[^>]* xmlUrl="https:\/\/a\.example\/feed"/);
    await visitor.submit('/reader/feeds/f9/remove', {}, '/reader/feeds');
    await visitor.submit('/reader/feeds/f0/remove', {}, '/reader/feeds');
    assert.equal(store.known.length, 0);
    const imported = await visitor.submit('/reader/feeds/import', { opml }, '/reader/feeds');
    assert.match(imported, /2 feeds imported/);
  });

  it('say why, or that there is no score yet', async () => {
    const { site, visitor } = await entered();
    await using _site = site;
    assert.match(await visitor.page('/reader/articles/a3/why'), /It has no score yet/);
    await visitor.submit('/reader/articles/a0/vote', { score: '9' });
    const why = await visitor.page('/reader/articles/a3/why');
    assert.match(why, /Why \d+\.\d\?/);
    assert.match(why, /One index made the nightly report/);
    assert.match(why, /\d+ % alike/);
    assert.match(why, /raises it/);
    assert.match(why, /You gave workbench\.example 7\.0 on average/);
    assert.equal((await visitor.get('/reader/articles/a%3Cb/why')).status, 422);
  });

  it('begin with samples for who has nothing', async () => {
    const { site, visitor, store } = await entered({ samples: false });
    await using _site = site;
    assert.match(await visitor.page('/reader'), /Nothing here yet/);
    const page = await visitor.submit('/reader/samples');
    assert.match(page, /Sample articles are here/);
    assert.equal(titlesOf(page).length, 9);
    await visitor.submit('/reader/samples');
    assert.equal(store.kept.length, 10);
  });

  it('keep the lists of few users only, and hold the event loop for a moment only', async () => {
    const { site, visitor } = await entered();
    await using _site = site;
    for (const words of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) {
      await visitor.page(`/reader?q=${words}`);
    }
    const desk = site.desks.find('u1');
    assert.equal(desk?.list({ listing: 'all', words: ['a'] }), undefined);
    assert.ok(desk?.list({ listing: 'all', words: ['h'] }) !== undefined);
    for (let user = 0; user < 40; user += 1) site.desks.open(`u-${user}`);
    assert.equal(site.desks.stats.desks, 32);
    assert.equal(site.desks.find('u1'), undefined);
    assert.match(await visitor.page('/reader'), /stories to read/);
  });
});
