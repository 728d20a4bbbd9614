import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import { inNetworks, isPublicAddress } from '../src/fetching/public-address.ts';
import { html, openFetcher, openSite, refusalOf, type Site, story } from './fetch-scene.ts';

const privateAddresses = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.1', '10.255.255.255', '100.64.0.1', '100.100.100.200'],
  ...['100.127.255.255', '127.0.0.1', '127.255.255.254', '168.63.129.16', '169.254.0.1'],
  ...['169.254.169.254', '172.16.0.1', '172.31.255.255', '192.0.0.192', '192.0.2.1'],
  ...['192.88.99.1', '192.168.0.1', '192.168.255.255', '198.18.0.1', '198.19.255.255'],
  ...['198.51.100.7', '203.0.113.9', '224.0.0.1', '239.255.255.255', '240.0.0.1'],
  ...['255.255.255.255', '::', '::1', '::7f00:1', '::127.0.0.1', '::ffff:127.0.0.1'],
  ...['::ffff:10.0.0.1', '::ffff:a9fe:a9fe', '::ffff:0:127.0.0.1', '64:ff9b::127.0.0.1'],
  ...['64:ff9b::', '64:ff9b::1', '64:ff9b::a00:1', '64:ff9b::a9fe:a9fe', '64:ff9b::7f00:0'],
  ...['64:ff9b:1::1', '64:ff9b:0:0:1::1', '100::1', '2001::1', '2001:0:4136:e378::1'],
  ...['2001:2::1', '2001:10::1', '2001:db8::1', '2002:7f00:1::', '2002:808:808::1'],
  ...['3fff::1', '4000::1', '5f00::1', 'fc00::1', 'fd00:ec2::254', 'fe80::1', 'fe80::1%lo'],
  ...['fec0::1', 'ff02::1', 'ff0e::1', '', 'localhost', '127.1', '0x7f000001', '2130706433'],
];

const publicAddresses = [
  ...['1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0'],
  ...['126.255.255.255', '128.0.0.1', '169.253.255.255', '172.15.255.255', '172.32.0.1'],
  ...['192.0.1.1', '192.167.255.255', '198.17.255.255', '198.20.0.1', '223.255.255.255'],
  ...['2000::1', '2001:200::1', '2001:4860:4860::8888', '2606:4700::1111', '2a00:1450::1'],
  ...['3ffe::1', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '64:ff9b::101:101'],
];

describe('an address', () => {
  it('is public only if all the internet can reach it', () => {
    assert.deepEqual(privateAddresses.filter(isPublicAddress), []);
    const missed = publicAddresses.filter((address) => !isPublicAddress(address));
    assert.deepEqual(missed, []);
  });
});

describe('a page on an address that is not public', () => {
  let site: Site;
  let fetcher: Fetcher;
  /** The names that the tests make up. */
  const names = new Map<string, () => LookupAddress[]>();

  before(async () => {
    site = await openSite();
    site.pages.set('/', html(`<h1>Secret</h1>${story(5).markup}`));
    const resolve = async (name: string) => names.get(name)?.() ?? [];
    fetcher = await openFetcher({ allow: () => false, resolve });
  });
  after(async () => {
    await fetcher.close();
    await site[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    site.asked.length = 0;
  });

  const reasonOf = async (url: string, by = fetcher) => {
    return (await refusalOf(by.fetchArticle(url))).reason;
  };

  it('is refused however the address is written', async () => {
    const { port } = site;
    const forms = [
      ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1'],
      ...['017700000001', '0x7f.0x0.0x0.0x1', '127.0.0.1.', '127。0。0。1', '１２７.0.0.1'],
      ...['%31%32%37.0.0.1', '①②⑦.⓪.⓪.①', '0', '0.0.0.0', '0x0', '[::1]', '[::]'],
      ...['[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::127.0.0.1]'],
      ...['[0:0:0:0:0:ffff:127.0.0.1]', '[64:ff9b::127.0.0.1]', '[64:ff9b:0::7f00:1]'],
      ...['[fe80::1]', '[fd00::1]', '[2002:7f00:1::]', '169.254.169.254', '0xa9fea9fe'],
      ...['2852039166', '0251.0376.0251.0376', '10.0.0.1', '192.168.1.1', '172.16.0.1'],
      ...['100.64.0.1', '224.0.0.1', '255.255.255.255', '198.18.0.1', '100.100.100.200'],
    ];
    for (const form of forms) {
      assert.equal(await reasonOf(`http://${form}:${port}/`), 'private_address', form);
    }
    assert.deepEqual(site.asked, []);
  });

  it('is refused whatever name leads there, and though another address is public', async () => {
    const ip = (address: string): LookupAddress => ({
      address,
      family: address.includes(':') ? 6 : 4,
    });
    names.set('inner.example', () => [ip('127.0.0.1')]);
    names.set('mixed.example', () => [ip('93.184.215.14'), ip('127.0.0.1')]);
    names.set('six.example', () => [ip('::1')]);
    names.set('mapped.example', () => [ip('::ffff:127.0.0.1')]);
    names.set('cloud.example', () => [ip('169.254.169.254')]);
    for (const name of names.keys()) {
      assert.equal(await reasonOf(`http://${name}:${site.port}/`), 'private_address', name);
      assert.equal(await reasonOf(`https://${name}:${site.port}/`), 'private_address', name);
    }
    assert.equal(await reasonOf('http://nowhere.example/'), 'dns');
    assert.deepEqual(site.asked, []);
  });

  it('is refused by the names that every machine has for itself', async () => {
    await using real = await openFetcher({ allow: () => false });
    assert.equal(await reasonOf(`http://localhost:${site.port}/`, real), 'private_address');
    assert.deepEqual(site.asked, []);
  });

  it('is refused as a feed and as a picture too, and the refusal names the setting', async () => {
    for (const ask of ['fetchFeed', 'fetchImage'] as const) {
      const answer = await refusalOf(fetcher[ask](`${site.url}/`));
      assert.equal(answer.reason, 'private_address');
      assert.match(answer.detail, /--allow-private names networks that may be fetched/);
    }
  });

  it('is refused when a page or a page of pages redirects there', async () => {
    await using inner = await openSite('127.0.0.2');
    inner.pages.set('/', html(story(5).markup));
    await using outer = await openFetcher();
    const send = (path: string, location: string) =>
      site.pages.set(path, (response) => response.writeHead(302, { location }).end());
    send('/one', `${inner.url}/`);
    send('/two', '/one');
    send('/file', 'file:///etc/passwd');
    send('/data', 'data:text/html,<p>hello');
    send('/password', `http://user:word@127.0.0.1:${site.port}/`);
    assert.equal(await reasonOf(`${site.url}/one`, outer), 'private_address');
    assert.equal(await reasonOf(`${site.url}/two`, outer), 'private_address');
    for (const path of ['/file', '/data', '/password']) {
      assert.equal(await reasonOf(`${site.url}${path}`, outer), 'invalid_url', path);
    }
    assert.deepEqual(inner.asked, []);
  });

  it('cannot be reached by a name whose address changes after it was checked', async () => {
    let asked = 0;
    const resolve = async (): Promise<LookupAddress[]> => {
      asked += 1;
      return [{ address: asked === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }];
    };
    await using rebound = await openFetcher({ resolve });
    const url = `http://rebinding.example:${site.port}/`;
    // The first answer is allowed here; had it been asked for twice, the second would be used.
    assert.equal((await rebound.fetchArticle(url)).kind, 'article');
    assert.equal(asked, 1);
    assert.deepEqual(site.asked, ['/']);
  });

  it('is told from what is no address of the web at all', async () => {
    const wrong = ['', 'hello', 'ftp://a.example/', 'file:///etc/passwd', 'javascript:alert(1)'];
    const more = ['http://', 'http://user@a.example/', 'http://a.example:99999/', '//a.example/'];
    for (const url of [...wrong, ...more, `http://a.example/${'x'.repeat(5_000)}`]) {
      assert.equal(await reasonOf(url), 'invalid_url', url);
    }
  });
});

it('lets in the networks that are named, and no other', () => {
  const isAllowed = inNetworks(['192.168.1.0/24', '10.1.2.3', 'fd00::/8']);
  const asked = ['192.168.1.77', '192.168.2.1', '10.1.2.3', '10.1.2.4', 'fd12::1', '127.0.0.1'];
  assert.deepEqual(asked.map(isAllowed), [true, false, true, false, true, false]);
});
