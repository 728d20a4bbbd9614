import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { type Certificate, CertificateAuthority } from 'spillway-fixtures/certificates';
import type { Fetcher } from '../src/fetching/fetcher.ts';
import { openFetcher, refusalOf, story } from './fetch-scene.ts';

const feed = `<rss version="2.0"><channel><title>Safe</title><item><title>One</title>
<link>https://news.test/1</link></item></channel></rss>`;

describe('a page behind TLS', () => {
  const authority = new CertificateAuthority();
  const stack = new AsyncDisposableStack();
  let fetcher: Fetcher;
  let port = 0;
  /** Requests that reached the server: the name that was asked for, and the path. */
  const asked: string[] = [];
  /** Names that were looked up. */
  const lookups: string[] = [];
  /** The addresses of names that do not lead to this machine. */
  const elsewhere = new Map<string, string>();

  const serve = async (certificate: Certificate): Promise<number> => {
    const server: Server = createServer(certificate, (request, response) => {
      const { servername } = request.socket as TLSSocket;
      asked.push(`${servername} ${request.headers.host?.replace(/:\d+$/, '')}${request.url}`);
      const type = request.url === '/feed' ? 'application/rss+xml' : 'text/html';
      const page = `<html>${story(5).markup}</html>`;
      if (request.url === '/away') response.writeHead(302, { location: 'https://inside.test/' });
      else response.writeHead(200, { 'content-type': type });
      response.end(request.url === '/feed' ? feed : page);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return (server.address() as AddressInfo).port;
  };

  before(async () => {
    setDefaultCACertificates([...getCACertificates('default'), authority.cert]);
    port = await serve(authority.issue({ names: ['news.test', '*.blogs.test'] }));
    fetcher = await openFetcher({
      resolve: async (name) => {
        lookups.push(name);
        return [{ address: elsewhere.get(name) ?? '127.0.0.1', family: 4 }];
      },
    });
    stack.defer(() => fetcher.close());
  });
  after(async () => {
    setDefaultCACertificates(getCACertificates('bundled'));
    await stack.disposeAsync();
  });
  beforeEach(() => {
    asked.length = 0;
    lookups.length = 0;
  });

  const refusal = async (url: string): Promise<string> => {
    return (await refusalOf(fetcher.fetchArticle(url))).message;
  };

  it('is fetched from the address that was checked, by the name that was asked for', async () => {
    const answer = await fetcher.fetchArticle(`https://news.test:${port}/story`);
    assert.ok(answer.kind === 'article', JSON.stringify(answer));
    assert.equal(answer.article.text, story(5).text.join('\n\n'));
    assert.equal(answer.article.source, 'news.test');
    assert.deepEqual(asked, ['news.test news.test/story']);
    assert.deepEqual(lookups, ['news.test'], 'a second look could lead elsewhere');
    const other = await fetcher.fetchArticle(`https://ada.blogs.test:${port}/post`);
    assert.equal(other.kind, 'article');
    assert.deepEqual(asked.slice(1), ['ada.blogs.test ada.blogs.test/post']);
  });

  it('may be a feed', async () => {
    const answer = await fetcher.fetchFeed(`https://news.test:${port}/feed`);
    assert.ok(answer.kind === 'feed', JSON.stringify(answer));
    assert.deepEqual([answer.feed.title, answer.feed.items.length], ['Safe', 1]);
  });

  it('is refused where the certificate is for another name, before anything is asked', async () => {
    const said = await refusal(`https://other.test:${port}/story`);
    assert.match(said, /^server_error: cannot be reached: ERR_TLS_CERT_ALTNAME_INVALID/);
    const address = await refusal(`https://127.0.0.1:${port}/story`);
    assert.match(address, /ERR_TLS_CERT_ALTNAME_INVALID/);
    assert.deepEqual(asked, []);
  });

  it('is refused where nobody known has signed, and where the time is over', async () => {
    const stranger = await serve(new CertificateAuthority().issue({ names: ['news.test'] }));
    const unknown = await refusal(`https://news.test:${stranger}/story`);
    assert.match(unknown, /^server_error: .*(UNABLE_TO_VERIFY|SELF_SIGNED|CERT_SIGNATURE_FAILURE)/);
    const old = { names: ['news.test'], until: new Date(Date.now() - 3_600_000) };
    const late = await serve(authority.issue(old));
    assert.match(await refusal(`https://news.test:${late}/story`), /CERT_HAS_EXPIRED/);
    assert.deepEqual(asked, []);
  });

  it('leads nowhere that is not public, by a redirect or by its name', async () => {
    elsewhere.set('inside.test', '10.0.0.7');
    assert.match(await refusal(`https://news.test:${port}/away`), /^private_address: inside\.test/);
    assert.deepEqual(asked, ['news.test news.test/away']);
    assert.match(await refusal('https://inside.test/'), /^private_address: inside\.test/);
    assert.match(await refusal('https://[::1]/'), /^private_address/);
  });
});
