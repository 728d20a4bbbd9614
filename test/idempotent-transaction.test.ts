import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { createServer, type HttpServer } from 'spillway-http';
import { Database } from 'spillway-sql';

interface Schema {
  payment: { by: number };
}

type Handler = (nth: number, pay: (fails?: boolean) => Promise<object>) => Promise<object>;

/** Two instances on one database, which pay and keep their answer in one transaction. */
async function open(url: string, runMsMax: number, handle: Handler) {
  const stack = new AsyncDisposableStack();
  const database = stack.use(await Database.open<Schema>({ url }));
  const statements = ['create table payment (by integer not null)'];
  await database.migrate([{ number: 1, name: 'payments', statements }]);
  await database.kysely.deleteFrom('payment').execute();
  const store = await database.store();
  const servers: HttpServer[] = [];
  for (const nth of [1, 2]) {
    const idempotency = { store, runMsMax, deadlineMs: 20_000 };
    const server = stack.use(await createServer({ idempotency, closeMsMax: 0, log: false }));
    server.app.post('/pay', (request) =>
      handle(nth, async (fails = false) => {
        const body = { paid: nth };
        await database.transaction(async (tx) => {
          await tx.insertInto('payment').values({ by: nth }).execute();
          await database.commitIn(tx, request.keepAnswer({ body }));
          if (fails) throw new Error('the work failed');
        });
        return body;
      }),
    );
    await server.start();
    servers.push(server);
  }
  const ask = async (nth: number, key: string | undefined) => {
    const headers = key === undefined ? undefined : { 'idempotency-key': key };
    const url = `${servers[nth - 1]?.url}/pay`;
    const answer = await fetch(url, { method: 'POST', ...(headers && { headers }) });
    return { status: answer.status, body: Object(await answer.json()) };
  };
  const payments = async () => {
    const rows = await database.kysely.selectFrom('payment').select('by').execute();
    return rows.map(({ by }) => by);
  };
  return { ask, payments, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

for (const kind of ['SQLite', 'Postgres'] as const) {
  describe(`an answer that is kept in a transaction of ${kind}`, () => {
    const withUrl = async (use: (url: string) => Promise<void>) => {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-kept-'));
      if (kind === 'SQLite') return await use(`sqlite:${join(folder.path, 'file.db')}`);
      await using server = await PostgresServer.start();
      await use(server.url);
    };

    it('is given by another instance, is undone with the work, and needs its claim', async () => {
      await withUrl(async (url) => {
        await isGiven(url);
        await isUndone(url);
        await needsItsClaim(url);
      });
    });
  });
}

/** The first instance commits, and never answers. */
async function isGiven(url: string): Promise<void> {
  const done = Promise.withResolvers<void>();
  await using site = await open(url, 60_000, async (nth, pay) => {
    const answer = await pay();
    done.resolve();
    return nth === 1 ? new Promise<never>(() => {}) : answer;
  });
  const unexpected = site.ask(1, 'given').then((answer) => assert.fail(JSON.stringify(answer)));
  await Promise.race([done.promise, unexpected]);
  assert.deepEqual(await site.ask(2, 'given'), { status: 200, body: { paid: 1 } });
  assert.deepEqual(await site.payments(), [1]);
  assert.deepEqual(await site.ask(2, undefined), { status: 200, body: { paid: 2 } });
}

/** The first transaction fails after the answer was given to it. */
async function isUndone(url: string): Promise<void> {
  await using site = await open(url, 60_000, (nth, pay) => pay(nth === 1));
  assert.equal((await site.ask(1, 'undone')).status, 500);
  assert.deepEqual(await site.payments(), []);
  assert.deepEqual(await site.ask(2, 'undone'), { status: 200, body: { paid: 2 } });
  assert.deepEqual(await site.payments(), [2]);
}

/** The first instance is so late that its claim has ended and the second has done the work. */
async function needsItsClaim(url: string): Promise<void> {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  await using site = await open(url, 3_000, async (nth, pay) => {
    if (nth === 1) {
      first.resolve();
      await second.promise;
    }
    return await pay();
  });
  const late = site.ask(1, 'late');
  const tooSoon = late.then((answer) => assert.fail(JSON.stringify(answer)));
  await Promise.race([first.promise, tooSoon]);
  let answer = await site.ask(2, 'late');
  for (; answer.status === 409; answer = await site.ask(2, 'late')) await setTimeout(50);
  assert.deepEqual(answer, { status: 200, body: { paid: 2 } });
  second.resolve();
  const { status, body } = await late;
  assert.deepEqual([status, body.error.code], [503, 'DATABASE_BUSY']);
  assert.deepEqual(await site.payments(), [2]);
}
