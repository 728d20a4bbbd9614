import assert from 'node:assert/strict';
import { mkdtempDisposable, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Panel, Service, SqliteFile, SqliteStore } from 'spillway';
import { cannotMount, mountSmallDisk } from 'spillway-fixtures/mount';
import { createServer } from 'spillway-http';
import { ask } from './ask.ts';

describe('a server whose disk is full', () => {
  it('is not ready, tells operators why, and is ready again by itself', async (test) => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-full-'));
    const disk = join(folder.path, 'disk');
    using mounted = mountSmallDisk(disk, 1_000_000);
    if (mounted === undefined) return test.skip(cannotMount);
    const ballast = join(disk, 'ballast');
    await writeFile(ballast, Buffer.alloc(500_000));
    await using file = await SqliteFile.open({ path: join(disk, 'file.db') });
    await using store = await SqliteStore.open({ file });
    let log = '';
    const nothing = () => {};
    const logger = {
      ...{ level: 'warn', silent: nothing, trace: nothing, debug: nothing, info: nothing },
      ...{ error: nothing, fatal: nothing, child: () => logger },
      warn: (line: object) => {
        log += JSON.stringify(line);
      },
    } as never;
    const panel = new Panel();
    panel.watch('file', file);
    const service = new Service({ parts: [store] });
    const operator = { panel, ready: service };
    await using server = await createServer({ operator, log: logger });
    await service.start();
    await server.start();
    const fill = async (at: number) => {
      await store.commit([{ name: `page ${at}`, value: 'x'.repeat(50_000) }]);
    };
    await assert.rejects(
      async () => {
        for (let at = 0; at < 100; at += 1) await fill(at);
      },
      { code: 'DATABASE_FULL' },
    );
    const asked = await ask(`${server.url}/-/ready`);
    assert.deepEqual([asked.status, JSON.parse(asked.text)], [503, { ready: false }]);
    const told = await server.operator.app.inject('/-/ready');
    assert.equal(told.statusCode, 503);
    const { unready, reasons } = told.json();
    assert.deepEqual(unready, ['store']);
    assert.match(reasons.store, /^the disk of .*file\.db is full/);
    while (!/"to":true/.test(log) || !/"unready"/.test(log)) await setTimeout(50);
    assert.match(log, /"part":"file","field":"full","from":false,"to":true/);
    assert.match(log, /"to":\["store"\],"reasons":\{"store":"the disk of .* is full/);
    await rm(ballast);
    while ((await ask(`${server.url}/-/ready`)).status !== 200) await setTimeout(50);
    await fill(0);
  });
});
