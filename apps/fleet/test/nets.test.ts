import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import { ask, FleetSite, temporaryFolder } from './fixtures/fleet-site.ts';

const content = randomBytes(300_000);
const nameOf = (bytes: Buffer) =>
  `nn-${createHash('sha256').update(bytes).digest('hex').slice(0, 12)}.nnue`;
const name = nameOf(content);

describe('nets', () => {
  let site: FleetSite;
  let folder: string;
  let outside: StandIn;
  const stack = new AsyncDisposableStack();

  const get = (path: string, headers = {}, method = 'GET') =>
    ask(`${site.fleet.server.url}${path}`, '', { method, headers });
  const row = async (net: string) =>
    (await site.fleet.files.nets.list()).find((one) => one.name === net);

  before(async () => {
    folder = await temporaryFolder(stack);
    outside = stack.use(await StandIn.open());
    site = stack.use(await FleetSite.open({ folder, netsUrl: `${outside.url}/nn` }));
  });

  after(() => stack.disposeAsync());

  it('are added under the name that their content gives them, or not at all', async () => {
    const { nets } = site.fleet.files;
    const source = join(folder, 'my.net');
    await writeFile(source, content);
    assert.equal((await nets.add(source, 'tester')).name, name);
    assert.equal((await nets.add(source, 'somebody')).name, name, 'twice is no error');
    assert.deepEqual([(await row(name))?.user, (await row(name))?.downloads], ['tester', 0]);
    const wrong = join(folder, 'nn-000000000000.nnue');
    await writeFile(wrong, content);
    await assert.rejects(nets.add(wrong, 'tester'), { code: 'REQUEST_REFUSED', message: /called/ });
    await writeFile(source, '');
    await assert.rejects(nets.add(source, 'tester'), { code: 'REQUEST_REFUSED' });
    await assert.rejects(nets.add(join(folder, 'none'), 'tester'), { code: 'ENOENT' });
    assert.deepEqual(await readdir(join(folder, 'nets')), [name]);
    const { json } = await site.ask('actions', { action: 'upload_nn' });
    assert.equal(json.length, 1, 'it is logged once');
    assert.deepEqual([json[0].username, json[0].nn], ['tester', name]);
  });

  it('are reached by a redirect that counts, and kept by who fetched them', async () => {
    const { status, headers } = await get(`/api/nn/${name}`);
    assert.equal(status, 302);
    assert.equal(headers.location, `${site.fleet.server.url}/nn/${name}`);
    assert.equal((await row(name))?.downloads, 1);
    const answer = await fetch(`${site.fleet.server.url}/api/nn/${name}`);
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), content);
    assert.equal((await row(name))?.downloads, 2);
    assert.equal(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    assert.equal(answer.headers.get('content-length'), String(content.length));
    const etag = answer.headers.get('etag') as string;
    assert.equal((await get(`/nn/${name}`, { 'if-none-match': etag })).status, 304);
    const part = await get(`/nn/${name}`, { range: 'bytes=5-9' });
    assert.equal(part.status, 206);
    assert.equal(part.headers['content-range'], `bytes 5-9/${content.length}`);
  });

  it('may be put into the folder by hand, if they are what their name says', async () => {
    const bytes = randomBytes(1000);
    const byHand = nameOf(bytes);
    await writeFile(join(folder, 'nets', byHand), bytes);
    assert.equal((await get(`/api/nn/${byHand}`)).status, 302);
    assert.equal((await row(byHand))?.user, 'fishtest.system');
    const false_ = 'nn-111111111111.nnue';
    await writeFile(join(folder, 'nets', false_), bytes);
    assert.equal((await get(`/api/nn/${false_}`)).status, 404);
    assert.equal((await get(`/nn/${false_}`)).status, 404);
    await writeFile(join(folder, 'nets', byHand), randomBytes(999));
    assert.equal((await get(`/nn/${byHand}`)).status, 404, 'what changes is looked at again');
  });

  it('are not found under any other name', async () => {
    const odd = ['nn-0123456789ab.nnue', 'x', '..%2ffleet.db', '%00', `${name}.gz`, '.'];
    for (const one of odd) {
      assert.equal((await get(`/nn/${one}`)).status, 404, one);
      assert.equal((await get(`/api/nn/${one}`)).status, 404, one);
    }
    assert.equal((await get(`/nn/${name}`, {}, 'PUT')).status, 405);
    const { json } = await get('/api/nn/x');
    assert.equal(json.error, '/api/nn/x: The network x does not exist');
  });

  it('know which runs used them first and last', async () => {
    const { nets } = site.fleet.files;
    await nets.noteTest(name, { id: 'a'.repeat(24), date: 1 });
    await nets.noteTest(name, { id: 'b'.repeat(24), date: 2 });
    const { first_date, first_id, last_date, last_id } = (await row(name)) ?? {};
    assert.deepEqual([first_date, last_date], [1, 2]);
    assert.deepEqual([first_id, last_id], ['a'.repeat(24), 'b'.repeat(24)]);
  });

  it('that are not here are brought here once, however many ask', async () => {
    const bytes = randomBytes(100_000);
    const far = nameOf(bytes);
    const before = outside.asked.length;
    outside.serve = (_request, response) => response.end(bytes);
    const all = await Promise.all(
      Array.from({ length: 10 }, () => fetch(`${site.fleet.server.url}/api/nn/${far}`)),
    );
    for (const answer of all) assert.deepEqual(Buffer.from(await answer.arrayBuffer()), bytes);
    assert.deepEqual(outside.asked.slice(before), [`GET /nn/${far}`]);
    assert.equal((await row(far))?.user, 'fishtest.system');
    const none = 'nn-333333333333.nnue';
    outside.serve = (_request, response) => response.writeHead(404).end();
    for (const path of [`/api/nn/${none}`, `/nn/${none}`]) {
      assert.equal((await get(path)).status, 404);
    }
    assert.equal(outside.asked.length, before + 2, 'what is nowhere is not looked for again soon');
    outside.serve = (_request, response) => response.writeHead(503).end();
    assert.equal((await get('/api/nn/nn-444444444444.nnue')).status, 502, 'ask again later');
  });

  it('can be fetched from where others have them, and only if they fit their name', async () => {
    const bytes = randomBytes(200_000);
    const far = nameOf(bytes);
    outside.serve = (_request, response) => response.end(bytes);
    const { files } = site.fleet;
    assert.equal((await files.fetchNet(far, 'tester')).name, far);
    assert.equal(outside.asked.at(-1), `GET /nn/${far}`);
    assert.equal((await get(`/nn/${far}`)).status, 200);
    const other = 'nn-222222222222.nnue';
    await assert.rejects(files.fetchNet(other, 'tester'), { code: 'REQUEST_REFUSED' });
    outside.serve = (_request, response) => response.writeHead(404).end();
    await assert.rejects(files.fetchNet(other, 'tester'), { code: 'RECORD_UNKNOWN' });
    await assert.rejects(files.fetchNet('..', 'tester'), { code: 'OUTSIDE_REFUSED' });
    assert.equal((await get(`/nn/${other}`)).status, 404);
  });
});
