import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { Listener } from 'spillway/connect';
import { adviseLane } from 'spillway/internal';

const figures = {
  name: 'orders',
  limit: 4,
  inside: 4,
  waiting: 0,
  arrivalsPerSecond: 100,
  serviceMs: { mean: 50, p50: 40 },
  arrived: 1_000,
  refused: 200,
};

describe('advice on a lane', () => {
  it('says that it is too small, with the sum of Little', () => {
    const advice = adviseLane(figures);
    assert.equal(advice?.finding, 'too small');
    assert.match(advice.text, /100 calls a second, each inside for 50 ms, keep 5 permits busy/);
    assert.match(advice.text, /The lane has 4\. 7 would be enough/);
  });

  it('says that something else is slow, that others have its permits, that it is too large', () => {
    assert.equal(adviseLane({ ...figures, usualMs: 15 })?.finding, 'behind something slow');
    const starved = adviseLane({ ...figures, inside: 1, waiting: 9, parent: 'process' });
    assert.equal(starved?.finding, 'starved');
    assert.match(starved.text, /3 permits of its own left: process around it is full/);
    const large = adviseLane({ ...figures, limit: 1_000, refused: 0 });
    assert.equal(large?.finding, 'larger than it needs');
    assert.match(large.text, /7 would be enough/);
    assert.equal(adviseLane({ ...figures, refused: 0 }), undefined);
  });
});

describe('npx spillway advise', () => {
  const program = join(import.meta.dirname, '..', 'src', 'advise.ts');
  const run = promisify(execFile);

  it('looks twice at a service and says which lane refuses', async () => {
    let looks = 0;
    const server = createServer(({ headers }, response) => {
      looks += 1;
      const refused = { full: 200 * looks };
      const lane = { ...figures, kind: 'lane', arrived: 1_000 * looks, refused };
      response.statusCode = headers.authorization === 'Bearer a-token' ? 200 : 403;
      response.end(JSON.stringify({ parts: { orders: { kind: 'lane', stats: lane } } }));
    });
    await using listener = new Listener(server);
    await listener.start();
    const words = [program, 'advise', listener.url, '--seconds', '0.01'];
    const env = { ...process.env, SPILLWAY_OPERATOR_TOKEN: 'a-token' };
    const { stdout } = await run(process.execPath, words, { env });
    assert.match(stdout, /^orders is too small, 200 of 1000 calls refused\n {2}100 calls a second/);
    await assert.rejects(run(process.execPath, words), /answered 403/);
  });

  it('says how it is used', async () => {
    await assert.rejects(run(process.execPath, [program, 'advise']), /usage: spillway advise/);
  });
});
