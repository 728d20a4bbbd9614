import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { createServer as createSite, type RequestListener } from 'node:http';
import { createServer as createSecureSite } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { SpillwayError } from 'spillway';
import { type ProductOutcome, ProductTally } from '../src/harvest/product.ts';
import { openIngest } from '../src/open.ts';
import { readSettings } from '../src/settings.ts';
import { ingest } from './fixtures/ingest-command.ts';

const { signal } = new AbortController();

/** A server of bytes, and a site. */
const raw = (serve: (socket: Socket) => void): Server =>
  createServer((socket) => serve(socket.on('error', () => {})));
const site = (serve: RequestListener): Server => createSite(serve);

/** A site with a certificate that nobody has signed. */
async function unsigned(folder: string): Promise<Server> {
  const [keyPath, certPath] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const words = 'req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost';
  const files = ['-keyout', keyPath, '-out', certPath];
  execFileSync('openssl', [...words.split(' '), ...files], { stdio: 'ignore' });
  const [key, cert] = [await readFile(keyPath), await readFile(certPath)];
  return createSecureSite({ key, cert }, (_request, response) => response.end('[]'));
}

/** By name: what is there, and the reason that is told. */
const faults: Readonly<Record<string, readonly [Server | string | 'unsigned', RegExp]>> = {
  'no server': ['http://127.0.0.1:1', /cannot be reached: connect ECONNREFUSED/],
  'no such host': ['http://no-such-host.invalid', /cannot be reached: .*(ENOTFOUND|EAI_AGAIN)/],
  'a certificate that nobody signed': ['unsigned', /cannot be reached: self-signed certificate/],
  'no HTTP': [raw((socket) => socket.end('SSH-2.0-OpenSSH\r\n')), /cannot be reached: .*HTTP/],
  'closes at once': [raw((socket) => socket.destroy()), /cannot be reached: /],
  'never answers': [raw(() => {}), /cannot be reached: it gave no answer within 1000 ms/],
  'headers and no body': [
    site((_request, response) => response.flushHeaders()),
    /cannot be reached: it gave no answer within 1000 ms/,
  ],
  'redirects for ever': [
    site(({ url = '' }, response) => response.writeHead(302, { location: url }).end()),
    /: 302 leads to \//,
  ],
  HTML: [site((_request, response) => response.end('<html>')), /not JSON: <html>/],
  '401': [site((_request, response) => response.writeHead(401).end('who')), /: 401 who/],
  '404': [
    site((_request, response) => response.writeHead(404).end('no')),
    /404 no|no such product/,
  ],
  '500': [site((_request, response) => response.writeHead(500).end('oops')), /: 500 oops/],
};

describe('a first contact that fails', () => {
  for (const [name, [place, reason]] of Object.entries(faults)) {
    it(`tells address, reason and remedy after three requests at most: ${name}`, async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-contact-'));
      const server = place === 'unsigned' ? await unsigned(folder.path) : place;
      let url = String(server);
      if (typeof server !== 'string') {
        await once(server.listen(0, '127.0.0.1'), 'listening');
        const { port } = server.address() as AddressInfo;
        url = `http${place === 'unsigned' ? 's' : ''}://127.0.0.1:${port}`;
      }
      const source = join(folder.path, 'things.json');
      const pages = { by: 'offset', offset: 'from', limit: 'size', size: 10 };
      const things = { name: 'things', address: 'http://localhost/things', key: 'id', pages };
      // Slow enough that a second request would come too late.
      await writeFile(source, JSON.stringify({ ...things, limits: { perMinute: 1 } }));
      // What answers may take its time on a busy machine, and what is silent must not.
      const firstAnswerSeconds = /within 1000 ms/.test(reason.source) ? '1' : '60';
      const one = { baseUrl: url, data: join(folder.path, 'data'), firstAnswerSeconds };
      const exchanges = [
        { flags: one, product: 'BTC-USD', requestsMax: 3 },
        { flags: { ...one, source }, product: 'things', requestsMax: 1 },
      ];
      for (const { flags, product, requestsMax } of exchanges) {
        const { settings } = readSettings({ flags, environment: {} });
        await using opened = await openIngest({ settings, environment: {} });
        const harvester = opened.harvester({ products: [product] });
        const [outcome] = (await harvester.run(signal)) as [ProductOutcome];
        assert.equal(outcome.status, 'failed');
        assert.match(String(outcome.reason), reason);
        assert.ok(outcome.reason?.includes(url), outcome.reason);
        assert.match(String(outcome.reason), /see .*--base-url|"ingest products --dry-run"/);
        assert.ok(harvester.requests <= requestsMax, `${harvester.requests} requests`);
      }
      if (typeof server !== 'string') server.close();
    });
  }

  it('is not the end of a process that goes on: a later round harvests', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-contact-'));
    let isAway = true;
    const server = site((_request, response) => {
      if (isAway) response.writeHead(503).end('away');
      else response.end('[]');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const source = join(folder.path, 'things.json');
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/things`;
    const pages = { by: 'offset', offset: 'from', limit: 'size', size: 10 };
    const limits = { perSecond: 1_000 };
    await writeFile(source, JSON.stringify({ name: 'things', address, key: 'id', pages, limits }));
    const flags = { source, data: join(folder.path, 'data') };
    const { settings } = readSettings({ flags, environment: {} });
    const options = { settings, environment: {}, goesOn: true, cooldownMs: 10 };
    await using opened = await openIngest(options);
    const harvester = opened.harvester({ products: ['things'] });
    const statusAfter = async (): Promise<string | undefined> => {
      await harvester.round(['things'], signal);
      return harvester.outcomes[0]?.status;
    };
    for (let round = 0; round < 3; round += 1) assert.equal(await statusAfter(), 'failed');
    isAway = false;
    assert.equal(await statusAfter(), 'done');
    server.close();
  });

  it('leaves no pause to the runs that come after it', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-contact-'));
    const flags = { data: folder.path, baseUrl: 'http://127.0.0.1:1' };
    const { settings } = readSettings({ flags, environment: {} });
    for (let run = 1; run <= 3; run += 1) {
      await using opened = await openIngest({ settings, environment: {} });
      const harvester = opened.harvester({ products: ['BTC-USD'] });
      const [outcome] = await harvester.run(signal);
      assert.match(String(outcome?.reason), /cannot be reached: /, `run ${run}`);
      assert.equal(opened.breaker.stats.state, 'closed');
    }
  });

  it('is told with a time where other processes have found it away', async () => {
    const tally = new ProductTally('BTC-USD');
    tally.fail(new SpillwayError('BREAKER_OPEN', 'open', { retryAfterMs: 74_100 }));
    assert.match(String(tally.outcome.reason), /asked anew in 75 s: run again then$/);
  });

  it('ends the command with 1', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'ingest-contact-'));
    const server = raw(() => {});
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const place = ['--data', folder.path, '--base-url', url, '--first-answer-seconds', '1'];
    const { code, stdout } = await ingest('run', 'BTC-USD', ...place);
    assert.equal(code, 1);
    assert.ok(
      stdout.includes(`${url} cannot be reached: it gave no answer within 1000 ms`),
      stdout,
    );
    server.close();
  });
});
