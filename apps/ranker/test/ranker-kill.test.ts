import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type Random, seededRandom } from 'spillway';
import type { RankerStorage } from '../src/storage/ranker-storage.ts';
import { openStorage, temporaryFolder } from './fixtures/stored-ranker.ts';

/**
 * Each round kills one process; those of a chain follow each other on one database.
 * `npm run test:kills` has more of them.
 */
const rounds = Number(process.env.SPILLWAY_KILLS ?? 40);
const chains: number = Math.min(4, availableParallelism());
/** Many processes are started: on a busy machine each takes seconds. */
const timeout = 1_200_000;
const clients = 6;

const program = join(import.meta.dirname, 'fixtures', 'correction-server.ts');

interface Chain {
  readonly storage: RankerStorage;
  readonly key: string;
  /** Starts a server that opens the database when it is told to. */
  readonly spawn: () => ChildProcess;
  readonly random: Random;
}

/** Answers that clients got; a score is different each time, so that it names the correction. */
class Told {
  sent = 0;
  readonly acknowledged: Set<number> = new Set();
  readonly inDoubt: Set<number> = new Set();

  async correct({ key }: Chain, url: string, client: number): Promise<void> {
    this.sent += 1;
    const score = 1 + this.sent / 1e6;
    const body = JSON.stringify({ text: `The text of client ${client}.`, score });
    this.inDoubt.add(score);
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await fetch(`${url}/correct_rank`, { method: 'POST', headers, body });
    assert.equal(response.status, 200, await response.text());
    this.inDoubt.delete(score);
    this.acknowledged.add(score);
  }
}

/** Tells a process to serve; gives its address. */
async function serve(child: ChildProcess): Promise<string> {
  child.send('serve');
  const early = once(child, 'exit').then(() => assert.fail('the server ended by itself'));
  early.catch(() => {});
  const [url] = (await Promise.race([once(child, 'message'), early])) as [string];
  return url;
}

/**
 * Most of a round is Node loading the program. One that ends by itself keeps what it has compiled,
 * which those that are killed have no time for: they need half of the processor then.
 */
async function warmUp(chain: Chain): Promise<void> {
  const child = chain.spawn();
  try {
    const url = await serve(child);
    const told = new Told();
    for (let client = 0; client < clients; client += 1) await told.correct(chain, url, client);
    child.send('end');
    await once(child, 'exit');
    assert.equal(child.exitCode, 0);
  } finally {
    child.kill('SIGKILL');
  }
}

/** Serves until the kill, which comes in the middle of something. */
async function round(chain: Chain, child: ChildProcess, told: Told): Promise<void> {
  const url = await serve(child);
  const gone = once(child, 'exit');
  const killAt = told.sent + clients + Math.floor(chain.random() * 20);
  const live = async (client: number): Promise<void> => {
    try {
      for (;;) {
        const turn = told.correct(chain, url, client);
        if (told.sent >= killAt) child.kill('SIGKILL');
        await turn;
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => live(client)));
  await gone;
}

async function verify({ storage }: Chain, { acknowledged, inDoubt }: Told): Promise<void> {
  const rows = await storage.database.kysely
    .selectFrom('corrections')
    .select(['score', 'article_id'])
    .orderBy('id')
    .execute();
  const stored = new Set(rows.map(({ score }) => score));
  assert.equal(stored.size, rows.length, 'none is stored twice');
  const lost = [...acknowledged].filter((score) => !stored.has(score));
  assert.deepEqual(lost, [], 'what was acknowledged is there');
  const unknown = [...stored].filter((score) => !acknowledged.has(score));
  assert.ok(unknown.every((score) => inDoubt.has(score)));
  const ratings = await storage.database.kysely.selectFrom('ratings').selectAll().execute();
  for (const { article_id, score } of ratings) {
    const last = rows.findLast((row) => row.article_id === article_id);
    assert.equal(score, last?.score, 'a rating is what the last correction says');
  }
}

/** One round after another; the next server loads its program while the last one serves. */
async function run(chain: Chain, count: number): Promise<void> {
  const told = new Told();
  let next = chain.spawn();
  try {
    for (let at = 0; at < count; at += 1) {
      const child = next;
      if (at + 1 < count) next = chain.spawn();
      await round(chain, child, told);
      await verify(chain, told);
    }
  } finally {
    next.kill('SIGKILL');
  }
  assert.ok(told.acknowledged.size > 5 * count, `${told.acknowledged.size} were acknowledged`);
  assert.ok(told.inDoubt.size >= count, 'each kill came in the middle of something');
}

describe('a ranker that is killed while it learns', () => {
  it(`has every correction that it acknowledged, ${rounds} times`, { timeout }, async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await temporaryFolder(stack);
    const env = { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') };
    const open = async (_: unknown, at: number): Promise<Chain> => {
      const database = `sqlite:${join(folder, `ranker-${at}.db`)}`;
      const storage = await openStorage(database, stack);
      const { key } = await storage.users.add('ada');
      const spawn = () => fork(program, [database], { env });
      return { storage, key, spawn, random: seededRandom(7 + at) };
    };
    await warmUp(await open(undefined, chains));
    const all = await Promise.all(Array.from({ length: chains }, open));
    const share = (at: number) => Math.floor((rounds + at) / chains);
    const done = await Promise.allSettled(all.map((chain, at) => run(chain, share(at))));
    for (const one of done) if (one.status === 'rejected') throw one.reason;
  });
});
