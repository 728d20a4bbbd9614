import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { RankerSite } from './fixtures/ranker-site.ts';
import { Visitor } from './fixtures/visitor.ts';

const list = `<?xml version="1.0"?><opml version="2.0" xmlns:frss="https://freshrss.org/opml">
<head><title>Mine</title></head><body>
  <outline text="News &amp; more" title="News &amp; more" frss:opened="true">
    <outline type="atom" text="My harbour" xmlUrl="https://127.0.0.9:1/feed?a=1&amp;b=2"
      htmlUrl="https://harbour.example/" description="A &quot;port&quot;" frss:priority="main"/>
    <outline text="In / out"><outline title="Old" text="Other name" custom-1="x &lt; y"
      xmlUrl="https://127.0.0.9:1/old"/></outline>
  </outline>
  <outline xmlUrl="https://127.0.0.9:1/bare" version="RSS"/>
  <outline text="Twice" xmlUrl="https://127.0.0.9:1/bare"/>
  <outline text="Wrong" xmlUrl="javascript:alert(1)"/>
</body></opml>`;

describe('a list of feeds that goes through the app', () => {
  let site: RankerSite;
  before(async () => {
    site = await RankerSite.open();
  });
  after(() => site[Symbol.asyncDispose]());

  const entered = async (name: string) => {
    const { user, key } = await site.ranker.storage.users.add(name);
    const visitor = new Visitor(site.url);
    await visitor.logIn(key);
    const taken = async (opml: string) => visitor.submit('/feeds/opml', { opml });
    const given = async () => (await visitor.get('/feeds/opml')).text();
    return { visitor, userId: user.id, taken, given };
  };

  it('comes out with all that was in it, and again the same', async () => {
    const one = await entered('one');
    assert.match(await one.taken(list), /3 feeds imported\. 2 left out: listed twice, or without/);
    const first = await one.given();
    for (const kept of [
      'xmlns:frss="https://freshrss.org/opml"',
      '<outline text="News &amp; more" title="News &amp; more" frss:opened="true">',
      'type="atom"',
      'text="My harbour"',
      'xmlUrl="https://127.0.0.9:1/feed?a=1&amp;b=2"',
      'htmlUrl="https://harbour.example/"',
      'description="A &quot;port&quot;"',
      'frss:priority="main"',
      '<outline text="In / out">',
      'title="Old"',
      'text="Other name"',
      'custom-1="x &lt; y"',
      'version="RSS"',
    ]) {
      assert.ok(first.includes(kept), `${kept} is not in\n${first}`);
    }
    const two = await entered('two');
    await two.taken(first);
    assert.equal(await two.given(), first);
  });

  it('is read in the encoding of its file', async () => {
    const { user, key } = await site.ranker.storage.users.add('encodings');
    const sent = (at: number, encoding: string) =>
      `<?xml version="1.0" encoding="${encoding}"?><opml version="2.0"><body>
<outline text="Größe ${at}" xmlUrl="https://127.0.0.9:1/${at}"/></body></opml>`;
    const mark = Buffer.from([0xff, 0xfe]);
    const files = [
      Buffer.from(sent(0, 'UTF-8')),
      Buffer.from(sent(1, 'ISO-8859-1'), 'latin1'),
      Buffer.concat([mark, Buffer.from(sent(2, 'UTF-16'), 'utf16le')]),
    ];
    for (const body of files) {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'text/xml' };
      const answer = await fetch(`${site.url}/feeds/opml`, { method: 'POST', headers, body });
      assert.equal(answer.status, 201, await answer.text());
    }
    const listed = await site.ranker.storage.feeds.list(user.id);
    const titles = new Set(listed.map(({ title }) => title));
    assert.deepEqual(titles, new Set(['Größe 0', 'Größe 1', 'Größe 2']));
  });

  it('has names that stay whatever a feed calls itself, and those given here', async () => {
    const { visitor, userId, taken, given } = await entered('three');
    await taken(list);
    const { feeds } = site.ranker.storage;
    const known = await feeds.list(userId);
    const harbour = known.find(({ title }) => title === 'My harbour');
    const own = { title: 'Harbour Gazette', siteUrl: 'https://gazette.example/' };
    const now = { feedId: String(harbour?.id), fetchedAt: 1, nextAt: 9e15 };
    await feeds.save({
      ...{ ...now, ...own, outcome: 'new', articles: [], isPrivate: false },
      ...{ etag: undefined, lastModified: undefined },
    });
    assert.match(await visitor.page('/reader/feeds'), /<strong>My harbour<\/strong>/);
    assert.match(await given(), /text="My harbour"/);
    const edit = { title: 'Port', folder: 'Sea / Ships' };
    await visitor.submit(`/feeds/${harbour?.id}/edit`, edit);
    const opml = await given();
    assert.match(opml, /<outline text="Sea">\s*<outline text="Ships">\s*<outline type="atom"/);
    assert.match(opml, /type="atom" text="Port" title="Port"/);
    assert.match(opml, /frss:priority="main"/);
    assert.match(opml, /<outline text="In \/ out">/);
  });
});
