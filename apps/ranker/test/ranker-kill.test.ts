import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { openStorage, temporaryFolder } from './fixtures/stored-ranker.ts';

/** Each round kills one process; set `RANKER_KILLS` to 200 for the whole proof. */
const rounds = Number(process.env.RANKER_KILLS ?? 15);
const clients = 6;

describe('a ranker that is killed while it learns', () => {
  it(`has every correction that it acknowledged, ${rounds} times`, async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const database = `sqlite:${join(folder, 'ranker.db')}`;
    const storage = await openStorage(database, stack);
    const { key } = await storage.users.add('ada');
    const env = { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') };
    const program = join(import.meta.dirname, 'fixtures', 'correction-server.ts');
    const spawnOne = (): ChildProcess => fork(program, [database], { env });
    const random = seededRandom(7);
    let next = spawnOne();
    stack.defer(() => void next.kill('SIGKILL'));

    // A score is different each time, so that it names the correction.
    let sent = 0;
    const acknowledged = new Set<number>();
    const inDoubt = new Set<number>();
    const correct = async (url: string, client: number): Promise<void> => {
      sent += 1;
      const score = 1 + sent / 1e6;
      const body = JSON.stringify({ text: `The text of client ${client}.`, score });
      inDoubt.add(score);
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const response = await fetch(`${url}/correct_rank`, { method: 'POST', headers, body });
      assert.equal(response.status, 200, await response.text());
      inDoubt.delete(score);
      acknowledged.add(score);
    };

    for (let round = 0; round < rounds; round += 1) {
      const child = next;
      child.send('serve');
      const gone = once(child, 'exit');
      const early = gone.then(() => assert.fail('the server ended by itself'));
      early.catch(() => {});
      const [url] = (await Promise.race([once(child, 'message'), early])) as [string];
      next = spawnOne();
      const killAt = sent + clients + Math.floor(random() * 40);
      const live = async (client: number): Promise<void> => {
        try {
          for (;;) {
            const turn = correct(url, client);
            if (sent >= killAt) child.kill('SIGKILL');
            await turn;
          }
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error;
        }
      };
      await Promise.all(Array.from({ length: clients }, (_, client) => live(client)));
      await gone;
      const rows = await storage.database.kysely
        .selectFrom('corrections')
        .select(['score', 'article_id'])
        .orderBy('id')
        .execute();
      const stored = new Set(rows.map(({ score }) => score));
      assert.equal(stored.size, rows.length, 'none is stored twice');
      const lost = [...acknowledged].filter((score) => !stored.has(score));
      assert.deepEqual(lost, [], `lost in round ${round}`);
      const unknown = [...stored].filter((score) => !acknowledged.has(score));
      assert.ok(unknown.every((score) => inDoubt.has(score)));
      const ratings = await storage.database.kysely.selectFrom('ratings').selectAll().execute();
      for (const { article_id, score } of ratings) {
        const last = rows.findLast((row) => row.article_id === article_id);
        assert.equal(score, last?.score, 'a rating is what the last correction says');
      }
    }
    assert.ok(acknowledged.size > 5 * rounds, `${acknowledged.size} were acknowledged`);
    assert.ok(inDoubt.size >= rounds, 'each kill came in the middle of something');
  });
});
