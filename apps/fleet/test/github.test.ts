// Slow: each case opens a whole fleet.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StandIn } from 'spillway-fixtures/stand-in';
import { operate } from '../src/operations/operations.ts';
import { commitText, netNames } from '../src/outside/github.ts';
import { FleetSite, until } from './fixtures/fleet-site.ts';
import { commit, openGithub, other, repo, sha } from './fixtures/github-scene.ts';
import { Visitor } from './fixtures/visitor.ts';

const entry = { total: 2, white: 1, black: 1, min_depth: 1, max_depth: 9, sri: 'A'.repeat(64) };

describe('what is asked of GitHub', () => {
  it('resolves a branch with its bench, its description and its nets', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github } = await openGithub(stack);
    standIn.serve = (request, response) => {
      if (request.url === '/api/repos/someone/engine/commits/my%2Fbranch') {
        assert.equal(request.headers.authorization, 'Bearer secret');
        response.end(JSON.stringify(commit));
      } else if (request.url === `/raw/someone/engine/${sha}/src/evaluate.h`) {
        assert.equal(request.headers.authorization, undefined, 'files need no token');
        response.end('#define EvalFileDefaultName "nn-0123456789ab.nnue"\n');
      } else response.writeHead(404).end();
    };
    assert.deepEqual(await github.branch(repo, 'my/branch'), {
      sha,
      message: commit.commit.message,
      signature: '1234567',
      info: 'Faster',
      nets: ['nn-0123456789ab.nnue'],
    });
    assert.equal(await github.branch(repo, 'none'), undefined);
    assert.deepEqual(await github.nets(repo, other), []);
  });

  it('is asked once for what cannot change, by however many at once', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github } = await openGithub(stack);
    standIn.tell('#define EvalFileDefaultName "nn-0123456789ab.nnue"');
    const all = await Promise.all(Array.from({ length: 50 }, () => github.nets(repo, sha)));
    for (const nets of all) assert.deepEqual(nets, ['nn-0123456789ab.nnue']);
    assert.deepEqual(await github.nets(repo, sha), ['nn-0123456789ab.nnue']);
    assert.deepEqual(standIn.asked, [`GET /raw/someone/engine/${sha}/src/evaluate.h`]);
  });

  it('is asked again with a validator for what may change', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github, clock } = await openGithub(stack);
    const validators: unknown[] = [];
    standIn.serve = (request, response) => {
      validators.push(request.headers['if-none-match']);
      if (request.headers['if-none-match'] === '"v1"') response.writeHead(304).end();
      else response.writeHead(200, { etag: '"v1"' }).end(JSON.stringify(commit));
    };
    for (let time = 0; time < 3; time += 1) {
      assert.equal((await github.commit(repo, 'master'))?.sha, sha);
    }
    assert.deepEqual(validators, [undefined, '"v1"', '"v1"']);
    standIn.tellJson({ full_name: 'someone/Engine', source: { full_name: 'official/Engine' } });
    const known = {
      url: 'https://github.com/someone/Engine',
      rootUrl: 'https://github.com/official/Engine',
    };
    assert.deepEqual(await github.repository(repo), known);
    standIn.tellJson({ full_name: 'x/y' });
    assert.deepEqual(await github.repository(repo), known, 'fresh for ten minutes');
    await clock.advance(600_000);
    const root = 'https://github.com/x/y';
    assert.deepEqual(await github.repository(repo), { url: root, rootUrl: root });
  });

  it('reads the list of books', async () => {
    await using stack = new AsyncDisposableStack();
    const { standIn, github } = await openGithub(stack);
    standIn.tellJson({ 'a.epd': entry });
    assert.deepEqual(await github.books(), new Map([['a.epd', entry]]));
    assert.deepEqual(standIn.asked, ['GET /raw/official-stockfish/books/master/books.json']);
  });

  it('is asked for books by the first command that needs one', async () => {
    await using stack = new AsyncDisposableStack();
    const standIn = stack.use(await StandIn.open());
    standIn.tellJson({});
    const github = { apiUrl: `${standIn.url}/api`, rawUrl: `${standIn.url}/raw` };
    const { fleet } = stack.use(await FleetSite.open({ github }));
    await until(() => standIn.asked.length > 0);
    standIn.tellJson({ 'a.epd': entry });
    const listed = (await operate(fleet, 'book-list', {})) as { name: string }[];
    assert.deepEqual(
      listed.map(({ name }) => name),
      ['a.epd'],
    );
  });

  it('tells the page of a run whose base is not in the history of others', async () => {
    await using stack = new AsyncDisposableStack();
    const standIn = stack.use(await StandIn.open());
    const base = 'a'.repeat(40);
    const newer = 'b'.repeat(40);
    const elsewhere = 'e'.repeat(40);
    const common = new Map([
      [`official-stockfish:master...someone:${base}`, base],
      [`official-stockfish:master...someone:${elsewhere}`, base],
      [`official-stockfish:master...someone:${sha}`, base],
      [`official-stockfish:master...someone:${other}`, newer],
      [`someone:${base}...someone:${sha}`, base],
      [`someone:${base}...someone:${other}`, base],
      [`someone:${elsewhere}...someone:${sha}`, base],
    ]);
    standIn.serve = ({ url = '' }, response) => {
      const refs = /compare\/(.+)\?/.exec(decodeURIComponent(url))?.[1] ?? '';
      response.end(JSON.stringify({ merge_base_commit: { sha: common.get(refs) } }));
    };
    const github = { apiUrl: `${standIn.url}/api`, rawUrl: `${standIn.url}/raw` };
    const site = stack.use(await FleetSite.open({ github }));
    const visitor = new Visitor(site);
    for (const [resolved_base, resolved_new, warnings] of [
      [base, sha, []],
      [base, other, ['newer commits of master than its base']],
      [elsewhere, sha, ['not in the history of master', 'not in the history of the branch']],
    ] as const) {
      const id = await site.run({ tests_repo: repo, resolved_base, resolved_new });
      const page = async () => (await visitor.get(`/tests/view/${id}`)).text;
      const { length } = standIn.asked;
      let shown = await page();
      await until(() => standIn.asked.length > length);
      while (!warnings.every((warning) => shown.includes(warning))) shown = await page();
      const all = shown.match(/not in the history|newer commits of master/g) ?? [];
      assert.equal(all.length, warnings.length);
    }
  });
});

describe('the text of a commit', () => {
  it('has the last bench, and the rest is the description', () => {
    const cases = [
      ['Bench: 123456', '123456', ''],
      ['a\n\nbench: 12345678\nb', '12345678', 'a\n\n\nb'],
      ['Bench: 111111\nBench: 222222', '222222', 'Bench: 111111'],
      ['no bench', undefined, 'no bench'],
      ['Bench: 12345', undefined, 'Bench: 12345'],
      ['Bench: 123456789', undefined, 'Bench: 123456789'],
    ] as const;
    for (const [message, signature, info] of cases) {
      assert.deepEqual(commitText(message), { signature, info });
    }
  });

  it('names each default net once', () => {
    const source = [
      '#define EvalFileDefaultNameBig "nn-0123456789ab.nnue"',
      '#define EvalFileDefaultNameSmall "nn-ba9876543210.nnue"',
      '#define EvalFileDefaultNameAgain "nn-0123456789ab.nnue"',
      '// EvalFileDefaultName "nn-000000000000.nnue"',
      '#define Other "nn-111111111111.nnue"',
    ].join('\n');
    assert.deepEqual(netNames(source), ['nn-0123456789ab.nnue', 'nn-ba9876543210.nnue']);
  });
});
