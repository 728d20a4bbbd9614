import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Submission } from '../src/operations/submission.ts';
import { checkSource } from '../src/operations/submission-source.ts';
import { runArgs } from './fixtures/fleet-scene.ts';
import { openGithub, passing } from './fixtures/github-scene.ts';

const official = 'https://github.com/official-stockfish/Stockfish';
const own = 'https://github.com/ada/fish';
const newAccount = Date.UTC(2026, 0, 1);
const oldAccount = Date.UTC(2025, 5, 30);

function submission(changes = {}): Submission {
  const args = runArgs({ tests_repo: own, base_tag: 'base', ...changes });
  return { args, rescheduledFrom: undefined };
}

/** GitHub with a repository of this name and root, and these messages of commits on master. */
async function source(
  stack: AsyncDisposableStack,
  root = 'official-stockfish/Stockfish',
  messages: readonly string[] = [],
) {
  const { standIn, github, clock } = await openGithub(stack);
  standIn.serve = ({ url = '' }, response) => {
    const isList = url.includes('/commits?');
    const commits = messages.map((message) => ({ commit: { message } }));
    const repository = { full_name: 'ada/fish', source: { full_name: root } };
    response.end(JSON.stringify(isList ? commits : repository));
  };
  const check = (changes = {}, more = {}) => {
    const options = { github, registrationTime: newAccount, foreignRepos: false, ...more };
    return passing(clock, checkSource(submission(changes), options));
  };
  return { check, standIn };
}

describe('where a submission comes from', () => {
  it('is looked up: a repository gets the name it has today, a fork needs no more', async () => {
    await using stack = new AsyncDisposableStack();
    const { check } = await source(stack);
    const { submission: found, warnings } = await check({
      tests_repo: 'https://github.com/ada/old-name',
      master_repo: 'https://github.com/made/up',
    });
    assert.deepEqual([found.args.tests_repo, warnings], [own, []]);
    assert.equal('master_repo' in found.args, false);
  });

  it('may be another engine for old accounts, and where the setting says so', async () => {
    await using stack = new AsyncDisposableStack();
    const { check } = await source(stack, 'other/engine');
    await assert.rejects(check(), {
      code: 'INPUT_INVALID',
      message: /tests_repo: must be a fork of .*Stockfish.*other\/engine.*foreignRepos/,
    });
    for (const more of [{ registrationTime: oldAccount }, { foreignRepos: true }]) {
      const { submission: found, warnings } = await check({}, more);
      assert.equal(found.args.master_repo, 'https://github.com/other/engine');
      assert.match(warnings[0] ?? '', /is a fork of .*other\/engine/);
    }
  });

  it('must have the bench of master if it is called so', async () => {
    await using stack = new AsyncDisposableStack();
    const messages = ['Tidy up', 'Faster\n\nBench: 1234567', 'Older\n\nBench: 7654321'];
    const { check, standIn } = await source(stack, undefined, messages);
    await assert.rejects(check({ base_tag: 'master', base_signature: '7654321' }), {
      message: /base_signature: must be that of master, which is 1234567/,
    });
    const asked = standIn.asked.at(-1) ?? '';
    assert.equal(
      asked,
      'GET /api/repos/official-stockfish/Stockfish/commits?sha=master&per_page=100',
    );
    const right = await check({ base_tag: 'master', base_signature: '1234567' });
    assert.equal(right.submission.args.base_signature, '1234567');
    assert.ok(await check({ base_tag: 'other', base_signature: '1' }));
  });

  it('must be there, if GitHub can be asked at all', async () => {
    await using stack = new AsyncDisposableStack();
    const { check, standIn } = await source(stack);
    standIn.serve = (_request, response) => response.writeHead(404).end();
    await assert.rejects(check(), {
      message: /tests_repo: must be a repository, and GitHub has no/,
    });
    standIn.serve = (_request, response) => response.writeHead(500).end();
    const changes = { base_tag: 'master', master_repo: official };
    const { submission: kept } = await check(changes);
    assert.deepEqual(kept.args, submission(changes).args);
    const unasked = submission();
    const options = { registrationTime: newAccount, foreignRepos: false };
    assert.equal((await checkSource(unasked, options)).submission, unasked);
  });
});
