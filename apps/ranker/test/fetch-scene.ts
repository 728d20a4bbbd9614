import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Fetcher, type FetcherOptions } from '../src/fetching/fetcher.ts';
import { UnavailableError } from '../src/fetching/unavailable.ts';

/** Answers one path of a site. */
export type Reply = (response: ServerResponse, request: IncomingMessage) => unknown;

/** A site on this machine. */
export interface Site extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly pages: Map<string, Reply>;
  /** Requests in order: `path`, or `Host path` where the host is another name. */
  readonly asked: string[];
}

/** A site whose pages are by path, on an address of this machine. */
export async function openSite(address = '127.0.0.1'): Promise<Site> {
  const pages = new Map<string, Reply>();
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    asked.push(path);
    const reply = pages.get(path.replace(/\?.*/, ''));
    if (reply === undefined) response.writeHead(404).end();
    else reply(response, request);
  });
  server.listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  const url = `http://${address}:${port}`;
  return { url, port, pages, asked, [Symbol.asyncDispose]: close };
}

/** A fetcher that may reach one address of this machine, at any pace, without a browser. */
export function openFetcher(options: FetcherOptions = {}): Promise<Fetcher> {
  return Fetcher.open({
    allow: (address) => address === '127.0.0.1',
    browser: 'off',
    workers: 1,
    politeness: { ratePerSecond: 1_000, burst: 1_000 },
    ...options,
  });
}

/** The reason why something cannot be had, once it was asked for. */
export async function refusalOf(asked: Promise<unknown>): Promise<UnavailableError> {
  const error = await asked.then(
    () => assert.fail('it was fetched'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof UnavailableError, String(error));
  return error;
}

/** Sends a page. */
export function html(body: string | Uint8Array, type = 'text/html; charset=utf-8'): Reply {
  return (response) => response.writeHead(200, { 'content-type': type }).end(body);
}

/** A sentence that is told from others by its number. */
export function sentence(n: number): string {
  const things = ['harbour', 'crane', 'ledger', 'ferry', 'warehouse', 'signal', 'engine', 'tide'];
  const [a, b, c] = [0, 3, 5].map((step) => things[(n * 7 + step) % things.length]);
  return `In year ${1900 + n} the ${a} stood beside the ${b}, and nobody saw the ${c}, says ${n}.`;
}

/** Paragraphs of three sentences each, as a plain text and as markup. */
export function story(paragraphs: number): { readonly text: string[]; readonly markup: string } {
  const text = Array.from({ length: paragraphs }, (_, p) => {
    return [3 * p, 3 * p + 1, 3 * p + 2].map(sentence).join(' ');
  });
  return { text, markup: text.map((one) => `<p>${one}</p>`).join('\n') };
}
