import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { type SqlStatement, seededRandom } from 'spillway';
import { insert, Scene, sql } from './sqlite-scene.ts';

/** Every way to fail in a group, and what its caller is told. */
const failures: Readonly<Record<string, { statements: SqlStatement[]; error: object }>> = {
  'a constraint': { statements: [insert('taken')], error: { code: 'DATABASE_CONSTRAINT' } },
  'a constraint after a change': {
    statements: [insert('lost'), insert('taken')],
    error: { code: 'DATABASE_CONSTRAINT' },
  },
  'RAISE(ABORT)': { statements: [insert('abort')], error: { code: 'DATABASE_CONSTRAINT' } },
  'RAISE(FAIL)': { statements: [insert('fail')], error: { code: 'DATABASE_CONSTRAINT' } },
  'RAISE(ROLLBACK)': { statements: [insert('rollback')], error: { code: 'DATABASE_CONSTRAINT' } },
  'OR FAIL after the first of its rows': {
    statements: [sql("INSERT OR FAIL INTO item (name) VALUES ('lost'), ('taken')")],
    error: { code: 'DATABASE_CONSTRAINT' },
  },
  'OR ROLLBACK': {
    statements: [sql("INSERT OR ROLLBACK INTO item (name) VALUES ('lost'), ('taken')")],
    error: { code: 'DATABASE_CONSTRAINT' },
  },
  'a foreign key, seen when the group commits': {
    statements: [insert('lost'), sql('INSERT INTO child VALUES (99)')],
    error: { code: 'DATABASE_CONSTRAINT' },
  },
  'a mistake': { statements: [insert('lost'), sql('SELEC 1')], error: /syntax error/ },
  'a COMMIT of its own': { statements: [insert('lost'), sql('COMMIT')], error: /begun and ended/ },
};

const schema = [
  sql('CREATE TABLE child (id REFERENCES item DEFERRABLE INITIALLY DEFERRED)'),
  sql(`CREATE TRIGGER refuse AFTER INSERT ON item BEGIN
    SELECT CASE NEW.name
      WHEN 'abort' THEN RAISE(ABORT, 'no') WHEN 'fail' THEN RAISE(FAIL, 'no')
      WHEN 'rollback' THEN RAISE(ROLLBACK, 'no') END;
  END`),
  insert('taken'),
];

/** Rows that another connection finds: only the committed ones. */
function found(path: string): unknown[] {
  using database = new DatabaseSync(path, { readOnly: true });
  return database
    .prepare('SELECT name FROM item ORDER BY id')
    .all()
    .map(({ name }) => name);
}

describe('a group of SQLite transactions', () => {
  for (const [way, { statements, error }] of Object.entries(failures)) {
    it(`undoes only the one that fails by ${way}`, async () => {
      await using scene = await Scene.open();
      const { file } = scene;
      await file.write(schema);
      const before = file.stats;
      const neighbours = ['a', 'b', 'c', 'd', 'e', 'f'];
      const done = neighbours.flatMap((name, at) => {
        const failing = at === 3 ? [assert.rejects(file.write(statements), error)] : [];
        return [...failing, file.write(at % 2 ? [insert(name)] : [insert(name), sql('SELECT 1')])];
      });
      await Promise.all(done);
      assert.deepEqual(found(scene.path), ['taken', ...neighbours]);
      assert.equal(file.stats.groups - before.groups, 1, 'they came as one group');
      assert.equal(file.stats.transactions - before.transactions, neighbours.length);
      await file.write([insert('later')]);
      assert.deepEqual(found(scene.path), ['taken', ...neighbours, 'later']);
    });
  }

  it('denies savepoints, which could undo what is not their own', async () => {
    await using scene = await Scene.open();
    const { file } = scene;
    const denied = /there are no savepoints/;
    await file.transaction(async (tx) => {
      await assert.rejects(tx.run(sql('SAVEPOINT mine')), denied);
      await tx.run(insert('a'));
    });
    await Promise.all([
      file.write([insert('b')]),
      assert.rejects(
        file.write([insert('lost'), sql('/* known by now */ SAVEPOINT mine')]),
        denied,
      ),
      assert.rejects(file.write([insert('lost'), sql('SAVEPOINT mine')]), denied),
      assert.rejects(file.write([sql('ROLLBACK TO mine')]), denied),
      file.write([insert('c')]),
    ]);
    assert.deepEqual(found(scene.path), ['a', 'b', 'c']);
  });

  it('denies pragmas that would change the connection for all who write later', async () => {
    await using scene = await Scene.open();
    const { file } = scene;
    const pragmas = ['locking_mode = EXCLUSIVE', 'QUERY_ONLY(1)', 'busy_timeout = 9000'];
    for (const pragma of pragmas) {
      const denied = file.write([insert('lost'), sql(`PRAGMA main.${pragma}`)]);
      await assert.rejects(denied, /pragmas that set up a connection cannot be changed/, pragma);
    }
    const [mode] = await file.write([sql('PRAGMA locking_mode')]);
    assert.deepEqual(mode?.rows, [{ locking_mode: 'normal' }]);
    await file.write([insert('a')]);
    assert.deepEqual(found(scene.path), ['a']);
  });

  it('does what the transactions would do one after the other', async () => {
    const random = seededRandom(Number(process.env.SPILLWAY_SEED ?? 1));
    await using scene = await Scene.open();
    const { file } = scene;
    let expected: number[] = [];
    let failed = 0;
    for (let round = 0; round < 100; round += 1) {
      const group = Array.from({ length: 1 + Math.floor(random() * 12) }, async () => {
        const statements: SqlStatement[] = [];
        const after = [...expected];
        let fails = false;
        for (let left = 1 + Math.floor(random() * 3); left > 0; left -= 1) {
          const way = ['ABORT', 'FAIL', 'ROLLBACK', 'IGNORE'][Math.floor(random() * 4)];
          const names = [random(), random()].map((number) => Math.floor(number * 600));
          statements.push(sql(`INSERT OR ${way} INTO item (name) VALUES (?), (?)`, ...names));
          for (const name of names) {
            if (!after.includes(name)) after.push(name);
            else if (way !== 'IGNORE') fails = true;
          }
        }
        if (!fails) expected = after;
        else failed += 1;
        const wrote = file.write(statements);
        await (fails ? assert.rejects(wrote, { code: 'DATABASE_CONSTRAINT' }) : wrote);
      });
      await Promise.all(group);
    }
    assert.ok(failed > 50, `${failed} failed`);
    assert.deepEqual(found(scene.path), expected);
  });
});
