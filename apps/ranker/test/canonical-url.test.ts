import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { canonicalUrl } from '../src/fetching/canonical-url.ts';

describe('the name of an article', () => {
  it('says nothing of how its reader came there', () => {
    const same: Readonly<Record<string, string>> = {
      'https://a.example/x?utm_source=n&utm_medium=email&id=7#top': 'https://a.example/x?id=7',
      'https://a.example/x?fbclid=1&gclid=2&msclkid=3&mc_cid=4&mc_eid=5': 'https://a.example/x',
      'https://A.Example:443/x?UTM_Campaign=y&': 'https://a.example/x',
      'https://a.example/x?ref=hackernews&source=twitter': 'https://a.example/x',
      'https://a.example/x?ref=main-branch&source=5':
        'https://a.example/x?ref=main-branch&source=5',
      'https://a.example/x?q=a%20b+c&empty=': 'https://a.example/x?q=a%20b+c&empty=',
      'https://a.example/story/amp/': 'https://a.example/story',
      'https://a.example/story/amp?x=1': 'https://a.example/story?x=1',
      'https://a.example/amp': 'https://a.example/amp',
      'https://a.example/story.amp.html': 'https://a.example/story.html',
      'https://a.example/story?amp=1': 'https://a.example/story',
      'https://a.example/story?amp=50': 'https://a.example/story?amp=50',
      'https://a.example/story?outputType=amp': 'https://a.example/story',
      'https://www.google.com/amp/s/a.example/story': 'https://a.example/story',
      'https://a-example.cdn.ampproject.org/c/s/a.example/story/amp': 'https://a.example/story',
      ' http://a.example ': 'http://a.example/',
      'http://ex\u00E4mple.example/\u00FC': 'http://xn--exmple-cua.example/%C3%BC',
    };
    const named = Object.keys(same).map((url) => [url, canonicalUrl(url)]);
    assert.deepEqual(Object.fromEntries(named), same);
  });

  it('stays the same when it is made again', () => {
    const urls = ['https://a.example/x/amp/amp?utm_a=1&b=2', 'https://a.example/?a&b=&&c=#d'];
    for (const url of urls) {
      const once = canonicalUrl(url) ?? '';
      assert.equal(canonicalUrl(once), once);
    }
  });

  it('is only for the web', () => {
    const wrong = ['', 'x', 'ftp://a.example', 'data:,x', 'https://u:p@a.example/', 'http://[::1'];
    assert.deepEqual(
      wrong.map((url) => canonicalUrl(url)),
      wrong.map(() => undefined),
    );
    assert.equal(canonicalUrl('../b', 'https://a.example/c/d'), 'https://a.example/b');
  });
});
