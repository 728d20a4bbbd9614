import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { startFauxqs } from 'fauxqs';
import { S3Folder } from '../src/files/s3-folder.ts';
import { startExchange } from '../src/simulated/exchange.ts';
import { type Ended, IngestCommand } from './fixtures/ingest-command.ts';

const data = await mkdtemp(join(tmpdir(), 'ingest-bucket-'));
const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
server.createBucket('trades');
const exchange = await startExchange({ products: [{ id: 'A-USD', trades: 3_200 }] });
after(async () => {
  await exchange.close();
  await server.stop();
  await rm(data, { recursive: true, force: true });
});

const endpoint = `http://127.0.0.1:${server.port}`;
const keys = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'secret' };

/** `ingest …` with its files in the bucket. */
async function ingest(...words: readonly string[]): Promise<Ended> {
  const place = ['--data', data, '--exchange', 'simulated', '--base-url', exchange.url];
  const environment = {
    ...keys,
    INGEST_S3_BUCKET: 'trades',
    INGEST_S3_ENDPOINT: endpoint,
    INGEST_S3_PREFIX: 'market/one',
    INGEST_RATE_PER_SECOND: '200',
  };
  return await new IngestCommand([...words, ...place], environment).ended;
}

describe('ingest with a bucket for its files', () => {
  it('harvests, transforms, verifies, tells and cleans as with a folder', async () => {
    const run = await ingest('run', 'A-USD', '--max-requests', '3', '--json');
    assert.equal(run.code, 0, run.stderr);
    assert.equal(JSON.parse(run.stdout).table.added, 2_000);
    const news = await ingest('run', 'A-USD', '--no-transform', '--json');
    assert.equal(JSON.parse(news.stdout).trades, 1_200);
    const unmerged = await ingest('verify');
    assert.equal(unmerged.code, 0, unmerged.stdout);
    assert.match(unmerged.stdout, /^\(1 raw file not in the table yet/);
    assert.match(unmerged.stdout, /2,000 trades of 1 product .*: nothing is missing/);
    const transform = await ingest('transform', '--json');
    assert.equal(JSON.parse(transform.stdout).added, 1_200, transform.stderr);
    const rebuilt = await ingest('transform', '--rebuild', '--json');
    assert.equal(JSON.parse(rebuilt.stdout).read, 3_200, rebuilt.stderr);
    const count = 'SELECT count(*) AS n, count(DISTINCT trade_id) AS ids FROM trades';
    const query = await ingest('query', count, '--json');
    assert.deepEqual(JSON.parse(query.stdout).rows, [{ n: 3_200, ids: 3_200 }]);
    const [status] = JSON.parse((await ingest('status', '--json')).stdout);
    assert.deepEqual([status.inTable, status.upToId], [3_200, 3_200]);
    await leaveOrphan();
    const verified = await ingest('verify', '--report', 'json');
    assert.equal(verified.code, 0, verified.stdout);
    assert.match(verified.stdout, /\(1 raw file in no ledger, of a crash .*: ingest clean\)/);
    assert.match(verified.stdout, /3,200 trades .* nothing is missing/);
    assert.match((await ingest('clean', '--dry-run')).stdout, /A-USD +1 +4 +found/);
    assert.match((await ingest('clean')).stdout, /A-USD +1 +4 +deleted/);
    assert.equal((await ingest('clean')).stdout, 'There is nothing to clean.\n');
    assert.doesNotMatch((await ingest('verify')).stdout, /ingest clean/);
    // Nothing but the store and what was asked for is on this machine.
    const kept = (await readdir(data)).filter((name) => !name.startsWith('ingest.db'));
    assert.deepEqual(kept, ['report.json']);
  });

  it('says which bucket or key is missing', async () => {
    const words = ['status', '--data', data, '--s3-endpoint', endpoint, '--s3-bucket'];
    const nowhere = await new IngestCommand([...words, 'nowhere'], keys).ended;
    assert.equal(nowhere.code, 1);
    assert.match(nowhere.stderr, /\/nowhere: there is no such bucket/);
    const keyless = { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' };
    const refused = await new IngestCommand([...words, 'trades'], keyless).ended;
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/);
  });
});

/** As a process does that is killed between its file and its commit. */
async function leaveOrphan(): Promise<void> {
  const options = { accessKeyId: 'test', secretAccessKey: 'secret', prefix: 'market/one' };
  await using folder = await S3Folder.open({ ...options, endpoint: `${endpoint}/trades` });
  const day = 'raw/exchange=simulated/product=A-USD/date=2024-01-01';
  await folder.write(`${day}/3201-4200.g1.f1.jsonl.zst`, Buffer.from('half'));
  await folder.write(`${day}/mine.txt`, Buffer.from('not of ingest'));
}
