import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { parseFeed } from '../src/feeds/parse-feed.ts';
import { extractPage } from '../src/fetching/extract-page.ts';
import { imageType } from '../src/fetching/image-type.ts';
import { imagesIn } from '../src/fetching/page-images.ts';
import { story } from './fetch-scene.ts';
import { png } from './fixtures/pictures.ts';

const base = 'https://site.example/a/b.html';

describe('the pictures of a piece of markup', () => {
  it('have absolute addresses, their texts and their places', () => {
    const html = `<p>One two</p><img src="/x.png" alt="An &quot;X&quot;"><p>three &amp;</p>
<img data-src="lazy.jpg" src="data:image/gif;base64,AAAA"><img srcset="s.webp 1x, l.webp 2x">`;
    assert.deepEqual(imagesIn(html, base), [
      { url: 'https://site.example/x.png', alt: 'An "X"', at: 6 },
      { url: 'https://site.example/a/lazy.jpg', alt: '', at: 12 },
      { url: 'https://site.example/a/s.webp', alt: '', at: 12 },
    ]);
  });

  it('leave out what counts visits, what is no address, and what was there before', () => {
    const html = `<img src="https://t.example/pixel" width="1" height="1"><img alt="none">
<img src="data:image/png;base64,AAAA"><img src="javascript:alert(1)"><img src="/a.png">
<img src="/a.png#again"><img src="https://user:secret@site.example/b.png">
<script>"<img src=/c.png>"</script>`;
    assert.deepEqual(
      imagesIn(html, base).map(({ url }) => url),
      ['https://site.example/a.png'],
    );
    assert.equal(imagesIn('<img src="/1"><img src="/2">'.repeat(1), base).length, 2);
    const many = Array.from({ length: 500 }, (_, n) => `<img src="/${n}.png">`).join('');
    assert.equal(imagesIn(many, base).length, 40);
  });

  it('come with the text of a page, or as the one that stands for it', () => {
    const { markup, text } = story(6);
    const [first = '', ...rest] = markup.split('\n');
    const page = (body: string) => `<!doctype html><html><head><title>Harbour</title>
<meta property="og:image" content="/lead.png"></head><body><article><h1>Harbour</h1>${body}
</article></body></html>`;
    const found = extractPage(page(`${first}<img src="/in.png" alt="A ferry">${rest}`), base);
    const [image] = found.images;
    assert.deepEqual([image?.url, image?.alt], ['https://site.example/in.png', 'A ferry']);
    const before = String(text[0]).replace(/\s/g, '').length;
    assert.ok(Math.abs(Number(image?.at) - before) <= 10, `at ${image?.at}, not ${before}`);
    assert.deepEqual(
      extractPage(page(markup), base).images.map(({ url }) => url),
      ['https://site.example/lead.png'],
    );
  });

  it('come with the entries of every kind of feed, and so do tags', () => {
    const rss = `<rss version="2.0"><channel><title>T</title><item><title>One</title>
<link>https://site.example/one</link><category>Birds</category><category> Sleep </category>
<category>Birds</category><description>&lt;p&gt;Text&lt;/p&gt;&lt;img src="/r.png"&gt;</description>
</item><item><title>Two</title><link>https://site.example/two</link>
<media:thumbnail url="https://site.example/thumb.jpg"/></item><item><title>Three</title>
<link>https://site.example/three</link><enclosure url="/e.jpg" type="image/jpeg"/></item>
</channel></rss>`;
    const atom = `<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><id>1</id>
<title>One</title><link href="https://site.example/one"/><category term="birds" label="Birds"/>
<category term="sleep"/><content type="html">&lt;img src="r.png"&gt;</content></entry></feed>`;
    const json = JSON.stringify({
      ...{ version: 'https://jsonfeed.org/version/1.1', title: 'T' },
      items: [{ id: '1', url: 'https://site.example/one', image: '/r.png', tags: ['Birds', 7] }],
    });
    const facts = (text: string) =>
      parseFeed(text, 'https://site.example/feed').items.map(({ images = [], tags = [] }) => {
        return { images: images.map(({ url }) => url.replace('https://site.example', '')), tags };
      });
    assert.deepEqual(facts(rss), [
      { images: ['/r.png'], tags: ['Birds', 'Sleep'] },
      { images: ['/thumb.jpg'], tags: [] },
      { images: ['/e.jpg'], tags: [] },
    ]);
    assert.deepEqual(facts(atom), [{ images: ['/r.png'], tags: ['Birds', 'sleep'] }]);
    assert.deepEqual(facts(json), [{ images: ['/r.png'], tags: ['Birds', '7'] }]);
  });
});

describe('the type of a picture', () => {
  const bytes = (...parts: readonly (string | readonly number[])[]) =>
    Buffer.concat([
      ...parts.map((part) =>
        typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part),
      ),
      Buffer.alloc(40),
    ]);

  it('is told by its bytes, with its size', () => {
    const sized = (data: Buffer) => {
      const { type, width, height } = imageType(data) ?? {};
      return [type, width, height];
    };
    assert.deepEqual(sized(png(30, 20)), ['image/png', 30, 20]);
    const gif = bytes('GIF89a', [30, 0, 20, 0]);
    assert.deepEqual(sized(gif), ['image/gif', 30, 20]);
    const jpeg = bytes([
      0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc2, 0, 17, 8, 0, 20, 0, 30,
    ]);
    assert.deepEqual(sized(jpeg), ['image/jpeg', 30, 20]);
    const lossy = bytes('RIFF1234WEBPVP8 ', [0, 0, 0, 0, 0, 0, 0, 0x9d, 1, 0x2a, 30, 0, 20, 0]);
    assert.deepEqual(sized(lossy), ['image/webp', 30, 20]);
    const extended = bytes('RIFF1234WEBPVP8X', [10, 0, 0, 0, 0, 0, 0, 0, 29, 0, 0, 19, 0, 0]);
    assert.deepEqual(sized(extended), ['image/webp', 30, 20]);
    const lossless = bytes('RIFF1234WEBPVP8L', [0, 0, 0, 0, 0x2f, 29, 0xc0, 4, 0]);
    assert.deepEqual(sized(lossless), ['image/webp', 30, 20]);
    const avif = bytes(
      [0, 0, 0, 24],
      'ftypavif',
      [0, 0, 0, 0],
      'ispe',
      [0, 0, 0, 0],
      [...[0, 0, 0, 30, 0, 0, 0, 20]],
    );
    assert.deepEqual(sized(avif), ['image/avif', 30, 20]);
  });

  it('is none for anything else, and no bytes make it throw', () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
    for (const text of [svg, `<?xml version="1.0"?>${svg}`, '<!doctype html><p>Hi', 'BM', '']) {
      assert.equal(imageType(Buffer.from(text.padEnd(60))), undefined, text);
    }
    const heads = ['\x89PNG\r\n\x1a\n', 'GIF89a', '\xff\xd8\xff', 'RIFF1234WEBP', '1234ftypavif'];
    const random = seededRandom(9);
    for (let round = 0; round < 3_000; round += 1) {
      const head = Buffer.from(String(heads[round % heads.length]), 'latin1');
      const rest = Buffer.from(
        Array.from({ length: Math.floor(random() * 80) }, () =>
          random() < 0.3 ? 0xff : Math.floor(random() * 256),
        ),
      );
      imageType(Buffer.concat([head, rest]));
    }
    assert.equal(imageType(bytes([0xff, 0xd8, 0xff, 0xe0, 0, 0]))?.width, 0, 'an empty segment');
  });
});
