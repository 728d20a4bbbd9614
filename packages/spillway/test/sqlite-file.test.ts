import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { SpillwayError, type SqlStatement } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import { insert, Scene, sql } from './sqlite-scene.ts';

describe('SqliteFile.write', () => {
  it('gives the results of every statement', async () => {
    await using scene = await Scene.open();
    const results = await scene.file.write([
      insert('a'),
      sql('INSERT INTO item (name) VALUES (?), (?) RETURNING id, name', 'b', 'c'),
      sql('SELECT count(*) AS count FROM item'),
      sql('UPDATE item SET name = name || ?', '!'),
      sql('SELECT max(id) AS last FROM item'),
    ]);
    assert.deepEqual(results, [
      { rows: [], changes: 1, lastInsertRowid: 1 },
      {
        rows: [
          { id: 2, name: 'b' },
          { id: 3, name: 'c' },
        ],
        changes: 2,
        lastInsertRowid: 0,
      },
      { rows: [{ count: 3 }], changes: 0, lastInsertRowid: 0 },
      { rows: [], changes: 3, lastInsertRowid: 3 },
      { rows: [{ last: 3 }], changes: 0, lastInsertRowid: 0 },
    ]);
  });

  it('does all statements or none', async () => {
    await using scene = await Scene.open();
    const failing = scene.file.write([insert('a'), insert('a')]);
    await assert.rejects(failing, { code: 'DATABASE_CONSTRAINT', status: 409 });
    assert.deepEqual(await scene.names(), []);
  });

  it('tells one who leaves whether it may have been done', async () => {
    await using scene = await Scene.open();
    const leave = async (hasBegun: boolean) => {
      const leaving = new AbortController();
      const many = 'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000)';
      const statement = sql(
        `${many} INSERT INTO item (name) SELECT hasBegun || i FROM
        (SELECT i, ? AS hasBegun FROM n)`,
        String(hasBegun),
      );
      const writing = scene.file.write([statement], { signal: leaving.signal });
      while (hasBegun && scene.file.stats.waiting > 0) await new Promise(setImmediate);
      leaving.abort(new SpillwayError('DEADLINE', 'late'));
      return await writing.catch((error: SpillwayError) => error.retryable);
    };
    assert.equal(await leave(false), true);
    assert.equal(await leave(true), false);
  });

  it('shares one fsync among all that come together', async () => {
    await using scene = await Scene.open();
    const before = scene.file.stats.groups;
    await Promise.all(Array.from({ length: 200 }, (_, at) => scene.file.write([insert(at)])));
    assert.equal(scene.file.stats.groups, before + 1);
    assert.equal((await scene.names()).length, 200);
  });

  it('moves its log into the file meanwhile, long before the writer would', async () => {
    await using scene = await Scene.open();
    const page = () => randomBytes(4_096);
    const bytesMin = 2 * 256 * 4_096;
    let writes = 0;
    const writesMax = 2_500;
    // The writer itself begins after 64 MiB, which is more than all of these.
    for (; statSync(scene.path).size < bytesMin && writes < writesMax; writes += 1) {
      // The thread that moves the log needs its turn, too.
      if (writes > 500) await sleep(10);
      await scene.file.write([sql('INSERT INTO item (name) VALUES (?), (?)', page(), page())]);
    }
    assert.ok(writes < writesMax, `after ${writes} writes the file has not grown`);
    const { rows } = await scene.file.read(sql('SELECT count(*) AS count FROM item'));
    assert.deepEqual(rows, [{ count: 2 * writes }]);
  });

  it('undoes one that fails without hurting its neighbours in the group', async () => {
    await using scene = await Scene.open();
    const { file } = scene;
    const ways = ['ABORT', 'FAIL', 'ROLLBACK'];
    await file.write([
      sql('CREATE TABLE child (id REFERENCES item DEFERRABLE INITIALLY DEFERRED)'),
    ]);
    const all: [SqlStatement[], string | RegExp | undefined][] = [
      [[insert('first')], undefined],
      ...ways.map((way): [SqlStatement[], string] => [
        [insert(way), sql(`INSERT OR ${way} INTO item (name) VALUES ('new'), ('first')`)],
        'DATABASE_CONSTRAINT',
      ]),
      [[sql('INSERT INTO child VALUES (99)')], 'DATABASE_CONSTRAINT'],
      [[insert('lost'), sql('SELEC 1')], /syntax error in: SELEC 1/],
      [[insert('lost'), sql('COMMIT')], /begun and ended by write\(\) and transaction\(\)/],
      [[insert('lost'), sql('SELECT 1; DELETE FROM item')], /one statement at a time/],
      [[sql('SELECT 1; -- nothing more')], undefined],
      [[insert('last')], undefined],
    ];
    const outcomes = all.map(async ([statements, expected]) => {
      const done = file.write(statements);
      if (expected === undefined) await done;
      else if (typeof expected === 'string') await assert.rejects(done, { code: expected });
      else await assert.rejects(done, expected);
    });
    await Promise.all(outcomes);
    assert.deepEqual(await scene.names(), ['first', 'last']);
  });

  it('keeps every kind of value', async () => {
    await using scene = await Scene.open();
    const bytes = Buffer.from([0, 255, 7]);
    const values = [null, 1, -1.5, 2n ** 63n - 1n, 'ä💧', bytes, 2 ** 53 - 1, ''];
    const wrote = scene.file.write(values.map((value) => insert(value)));
    bytes.fill(1);
    await wrote;
    const expected = values.map((value) => (value === bytes ? new Uint8Array([0, 255, 7]) : value));
    assert.deepEqual(await scene.names(), expected);
  });

  it('refuses what is no statement, at the call', async () => {
    await using scene = await Scene.open();
    const misuse = { code: 'ERR_ASSERTION' };
    for (const value of [undefined, true, {}, () => 1, new Date(0)]) {
      await assert.rejects(scene.file.write([insert(value as never)]), misuse);
    }
    await assert.rejects(scene.file.write([{ sql: 1 } as never]), misuse);
    await assert.rejects(scene.file.write([undefined as never]), misuse);
    await assert.rejects(scene.file.write([sql('SELECT 1\0; DELETE FROM item')]), misuse);
    await assert.rejects(scene.file.write('text' as never), misuse);
    await assert.rejects(scene.file.read({ sql: 'SELECT 1' } as never), misuse);
    await assert.rejects(scene.file.read(sql('DELETE FROM item')), /readonly database/);
    await assert.rejects(scene.file.read(sql('SELECT ?', 1, 2)), /column index out of range/);
  });

  it('leaves the queue when aborted, and refuses one too many', async () => {
    await using scene = await Scene.open({ queueMax: 2 });
    const quitter = new AbortController();
    const reason = new Error('gone');
    const gone = assert.rejects(
      scene.file.write([insert('gone')], { signal: quitter.signal }),
      reason,
    );
    const kept = scene.file.write([insert('kept')]);
    await assert.rejects(scene.file.write([insert('over')]), { code: 'DATABASE_BUSY' });
    quitter.abort(reason);
    await Promise.all([gone, kept]);
    assert.deepEqual(await scene.names(), ['kept']);
    assert.equal(scene.file.stats.waiting, 0);
  });
});

describe('SqliteFile.transaction', () => {
  it('commits what its statements did, one after the other', async () => {
    await using scene = await Scene.open();
    const count = await scene.file.transaction(async (tx) => {
      await tx.run(insert('a'));
      await assert.rejects(tx.run(insert('a')), { code: 'DATABASE_CONSTRAINT' });
      const { rows } = await tx.run(sql('SELECT count(*) AS count FROM item'));
      return rows[0]?.count;
    });
    assert.equal(count, 1);
    assert.deepEqual(await scene.names(), ['a']);
  });

  it('undoes all when the work throws, and refuses what comes late', async () => {
    await using scene = await Scene.open();
    const oops = new Error('oops');
    let late = async () => {};
    const failing = scene.file.transaction(async (tx) => {
      late = async () => void (await tx.run(insert('late')));
      await tx.run(insert('a'));
      throw oops;
    });
    await assert.rejects(failing, oops);
    await assert.rejects(late(), /the transaction has ended/);
    assert.deepEqual(await scene.names(), []);
  });

  it('undoes all at once when aborted, and lets the next in', async () => {
    await using scene = await Scene.open();
    const quitter = new AbortController();
    const reason = new Error('gone');
    const stuck = scene.file.transaction(
      async (tx) => {
        await tx.run(insert('a'));
        quitter.abort(reason);
        await new Promise(() => {});
      },
      { signal: quitter.signal },
    );
    await assert.rejects(stuck, reason);
    await scene.file.write([insert('b')]);
    assert.deepEqual(await scene.names(), ['b']);
  });

  it('is not committed after an error that has ended it', async () => {
    await using scene = await Scene.open();
    await scene.file.write([insert('a')]);
    const failing = scene.file.transaction(async (tx) => {
      await tx.run(insert('b'));
      await tx.run(sql("INSERT OR ROLLBACK INTO item (name) VALUES ('a')")).catch(() => {});
      await tx.run(insert('c'));
    });
    await assert.rejects(failing, { code: 'DATABASE_LOST' });
    assert.deepEqual(await scene.names(), ['a']);
  });

  it('makes others wait, in order, and not for longer than they may', async () => {
    const clock = new VirtualClock();
    await using scene = await Scene.open({ clock, deadlineMs: 1_000 });
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const long = scene.file.transaction(async (tx) => {
      await tx.run(insert('first'));
      begin();
      await ended;
    });
    await begun;
    const late = assert.rejects(scene.file.write([insert('late')]), { code: 'DATABASE_BUSY' });
    await clock.advance(600);
    const patient = scene.file.write([insert('second')]);
    await clock.advance(400);
    await late;
    assert.equal(scene.file.stats.waiting, 1);
    end();
    await Promise.all([long, patient]);
    assert.deepEqual(await scene.names(), ['first', 'second']);
    assert.equal(clock.pending, 0);
  });
});
