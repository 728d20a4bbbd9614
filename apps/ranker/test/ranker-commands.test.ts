import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { rankerProgram } from '../src/commands/program.ts';
import { ranker } from './fixtures/ranker-command.ts';
import { RankerSite } from './fixtures/ranker-site.ts';
import { openStorage, temporaryFolder } from './fixtures/stored-ranker.ts';

type Command = ReturnType<typeof rankerProgram>;

function helpOf(command: Command): string {
  let help = '';
  const writeOut = (text: string) => {
    help += text;
  };
  command.configureOutput({ writeOut }).outputHelp();
  return help;
}

describe('the command line of the ranker', () => {
  const stack = new AsyncDisposableStack();
  let site: RankerSite;
  let folder = '';
  let own: Record<string, string> = {};

  before(async () => {
    folder = await temporaryFolder(stack);
    site = stack.use(await RankerSite.open({ data: folder }));
    await site.ranker.reader.addSamples(site.userId);
    await site.ranker.embedding.idle();
    own = { RANKER_URL: site.url, RANKER_KEY: site.key, RANKER_DATA: folder };
  });

  after(() => stack.disposeAsync());

  it('has help with examples for every command', () => {
    const program = rankerProgram();
    const leaves = program.commands.flatMap((one) =>
      one.commands.length > 0 ? one.commands : one,
    );
    assert.ok(leaves.length >= 15, `${leaves.length} commands`);
    for (const command of [program, ...leaves]) {
      const help = helpOf(command);
      assert.match(help, /\nExamples:\n {2}\$ ranker /, command.name());
      assert.match(help, /^Usage: ranker/, command.name());
    }
  });

  it('exits with 2 for wrong use and 1 when the server cannot be reached', async () => {
    const nowhere = { RANKER_URL: 'http://127.0.0.1:1', RANKER_KEY: 'x' };
    const cases: readonly (readonly [readonly string[], number, RegExp, object?])[] = [
      [['rnk'], 2, /unknown command 'rnk'[\s\S]*Did you mean rank\?/],
      [['rank'], 2, /missing required argument 'url\|file'/],
      [['rank', 'none'], 2, /none: is neither an address .* nor a file/],
      [['train', 'sample:queues', '50'], 2, /score: must be a number from 1 to 10, got 50/],
      [['stats'], 1, /no server can be reached at http:\/\/127\.0\.0\.1:1; start it/, nowhere],
      [['stats', '--key', 'wrong'], 2, /send your key/, own],
      [['rank', 'http://10.0.0.1/'], 1, /ARTICLE_UNAVAILABLE: private_address/, own],
      [['config', '--port', 'x'], 2, /port \(flag --port\): must be an integer from 0 to 65535/],
    ];
    const all = await Promise.all(
      cases.map(([words, , , more = {}]) => ranker(words, more as Record<string, string>)),
    );
    for (const [at, [, code, said]] of cases.entries()) {
      const told = all[at];
      assert.match(told?.stderr ?? '', said);
      assert.deepEqual([told?.code, told?.stdout], [code, ''], told?.stderr);
    }
  });

  it('lets a newcomer vote on the samples and see the order change', async () => {
    const rankOf = async (url: string): Promise<number> => {
      const told = await ranker(['rank', url, '--json'], own);
      return JSON.parse(told.stdout).rank;
    };
    assert.equal(await rankOf('sample:queues'), 5.5);
    const trained = await ranker(['train', 'sample:queues', '9'], own);
    assert.match(trained.stdout, /is 9 to you: 5\.5 before, 9\.0 now/);
    await ranker(['train', 'sample:red-carpet', '1'], own);
    const list = await ranker(['articles', '--json'], own);
    const titles = JSON.parse(list.stdout).articles.map(({ url }: { url: string }) => url);
    assert.deepEqual([titles[0], titles.at(-1)], ['sample:queues', 'sample:red-carpet']);
    const file = join(folder, 'note.txt');
    writeFileSync(file, 'A queue\n\nA server with a full queue refuses what it cannot do.');
    const why = await ranker(['rank', file, '--explain'], own);
    assert.match(why.stdout, /A queue[\s\S]*like "Why a full queue/);
  });

  it('leaves nothing behind at a start that is refused', async () => {
    const data = join(folder, 'taken');
    const told = await ranker(['serve', '--data', data, '--port', new URL(site.url).port]);
    assert.deepEqual([told.code, told.stdout], [1, '']);
    assert.match(told.stderr, /is in use; choose another with --port/);
    const half = await ranker(['serve', '--data', data, '--port', '0', '--operator-port', '0']);
    assert.deepEqual([half.code, half.stdout], [2, '']);
    assert.match(half.stderr, /--operator-port: needs --operator-token/);
    assert.equal(existsSync(data), false);
  });

  it('leaves nothing behind where a backup is refused', async () => {
    const data = await temporaryFolder(stack);
    const none = join(data, 'none.jsonl');
    const missing = await ranker(['restore', none], { RANKER_DATA: data });
    assert.equal(missing.stderr, `ranker: ${none}: there is no such file\n`);
    assert.equal(missing.code, 2);
    const refused = await ranker(['restore'], { RANKER_DATA: data }, 'nonsense\n');
    assert.equal(refused.stderr, 'ranker: line 1: is not JSON\n');
    assert.equal(refused.code, 1);
    assert.deepEqual(readdirSync(data), []);
  });

  it('writes a backup while the database is in use, and restores it elsewhere', async () => {
    const from = await temporaryFolder(stack);
    const to = await temporaryFolder(stack);
    const storage = await openStorage(`sqlite:${join(from, 'ranker.db')}`, stack);
    await storage.users.add('ada');
    const file = join(from, 'ranker.jsonl');
    const written = await ranker(['backup', file], { RANKER_DATA: from });
    assert.equal(written.code, 0, written.stderr);
    const restored = await ranker(['restore', file], { RANKER_DATA: to });
    assert.equal(restored.code, 0, restored.stderr);
    const there = await openStorage(`sqlite:${join(to, 'ranker.db')}`, stack);
    assert.deepEqual(await there.users.list(), await storage.users.list());
  });

  it('takes ratings in bulk, and moves them elsewhere', async () => {
    const lines = '# mine\nhttps://example.org/a,b,8\nnonsense\nhttps://example.org/c,99\n';
    const bulk = await ranker(['train-bulk', '--json'], own, lines);
    assert.deepEqual(JSON.parse(bulk.stdout), { count: 1, skipped: 2 });
    assert.match(bulk.stderr, /line 3: .*\n.*line 4: score/);
    const other = await ranker(['user', 'add', 'other', '--json'], own);
    const { key } = JSON.parse(other.stdout);
    const file = join(folder, 'mine.ndjson');
    assert.equal((await ranker(['export', '-o', file], own)).code, 0);
    const taken = await ranker(['import', file], { ...own, RANKER_KEY: key });
    assert.match(taken.stdout, /^\d+ ratings, 0 feeds and 0 rules were taken\.\n$/);
    const stats = await ranker(['stats', '--json'], { ...own, RANKER_KEY: key });
    assert.ok(JSON.parse(stats.stdout).training_samples >= 1);
    const retrained = await ranker(['retrain', '--quick'], own);
    assert.match(retrained.stdout, /quick training is queued/);
    const monitor = await ranker(['monitor', '--once', '--json'], own);
    assert.ok('history' in JSON.parse(monitor.stdout));
  });
});
