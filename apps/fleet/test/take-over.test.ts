import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { requires } from 'spillway-fixtures/requires';
import { ServedFleet } from './fixtures/fleet-command.ts';
import { temporaryFolder, until } from './fixtures/fleet-site.ts';
import { type ProxyName, startProxy } from './fixtures/proxy.ts';
import { ScriptedWorker, type Turn } from './fixtures/scripted-worker.ts';

const numGames = 2_000;

for (const proxy of ['nginx', 'haproxy'] as const satisfies readonly ProxyName[]) {
  describe(`behind ${proxy}, as it is configured in deploy`, requires(proxy), () => {
    it('a worker goes on when the primary is killed, and a form is taken', async () => {
      await using stack = new AsyncDisposableStack();
      const data = await temporaryFolder(stack);
      const words = ['--trust-proxy', '127.0.0.1'];
      const first = stack.use(await ServedFleet.start(data, words));
      const runId = await prepare(first);
      const second = stack.use(await ServedFleet.start(data, words));
      const ports = [first, second].map(({ url }) => Number(new URL(url).port));
      const url = await startProxy(proxy, data, ports, stack);
      const worker = new ScriptedWorker({
        server: { url },
        random: seededRandom(1),
        number: 1,
        password: 'secret of tester',
        pause: () => untilReady(url),
      });
      const turns = playOn(worker);
      const updates = () => worker.statuses.get('update_task 200') ?? 0;
      await until(() => updates() >= 3);
      await first.stop('SIGKILL');
      const seen = new Set(await turns);
      seen.delete('no answer');
      assert.deepEqual([...seen], ['done', 'no task']);
      const { value: run } = await second.ask('run-show', { id: runId });
      assert.equal(run.status, 'finished');
      const { wins, losses, draws } = run.results;
      assert.equal(wins + losses + draws, numGames);
      const acknowledged = worker.played.reduce((sum, one) => sum + one.acknowledged.wins, 0);
      assert.equal(wins, acknowledged, 'no result is lost');
      await assertForm(url);
    });
  });
}

/** Resolves when the proxy leads to an instance that decides. */
async function untilReady(url: string): Promise<void> {
  for (;;) if ((await fetch(`${url}/-/ready`)).status === 200) return;
}

async function prepare(server: ServedFleet): Promise<string> {
  const ask = async (name: string, input: object) => {
    const { value, error } = await server.ask(name, input);
    assert.equal(error, undefined, error?.message);
    return value;
  };
  const book = { total: 9, white: 9, black: 0, min_depth: 6, max_depth: 6, sri: 'a'.repeat(64) };
  await ask('book-add', { books: { 'book.epd': book } });
  await ask('user-add', { username: 'tester', password: 'secret of tester' });
  const sha = 'e'.repeat(40);
  const engine = { resolved_new: sha, resolved_base: sha, new_signature: '1', base_signature: '1' };
  const tags = { new_tag: 'sf', base_tag: 'sf', book: 'book.epd', tc: '10+0.1' };
  const run = { ...engine, ...tags, num_games: numGames, info: 'a take-over' };
  return (await ask('run-add', { username: 'tester', run, approve: true })).id;
}

/** Turns until there is no task. */
async function playOn(worker: ScriptedWorker): Promise<Turn[]> {
  const turns: Turn[] = [];
  while (turns.at(-1) !== 'no task') {
    turns.push(await worker.turn());
    if (turns.at(-1) === 'no answer') await worker.pause();
  }
  return turns;
}

/** A form gets through, whichever of the two instances was asked first. */
async function assertForm(url: string): Promise<void> {
  const page = await fetch(`${url}/login`);
  const cookie = page.headers.getSetCookie().map((line) => line.split(';')[0]);
  const token = /name="csrf-token" content="([^"]+)"/.exec(await page.text())?.[1] ?? '';
  const body = new URLSearchParams({
    username: 'tester',
    password: 'secret of tester',
    csrf_token: token,
  });
  const headers = { cookie: cookie.join('; '), accept: 'text/html' };
  const sent = await fetch(`${url}/login`, { method: 'POST', body, headers, redirect: 'manual' });
  assert.equal(sent.status, 302);
}
