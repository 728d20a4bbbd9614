import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { architectures } from '../src/protocol/patterns.ts';
import {
  RequestReader,
  readAccess,
  requireFor,
  requirements,
} from '../src/protocol/read-request.ts';
import { draws, stats } from './fixtures/fleet-scene.ts';

const info = {
  uname: 'Linux 6.18.44',
  architecture: ['64bit', 'ELF'],
  concurrency: 1,
  max_memory: 12052,
  min_threads: 1,
  username: 'tester',
  version: 325,
  python_version: [3, 11, 7],
  gcc_version: [12, 2, 0],
  compiler: 'g++',
  unique_key: '84b80805-5622-4d17-a1f4-08266b492c1c',
  modified: false,
  worker_arch: 'x86-64-avx2',
  ARCH: '?',
  nps: 0.0,
  near_github_api_limit: false,
};
const run_id = '6afa1be9b94090e3817f825a';
const good = { password: 'secret', worker_info: info };
const reader = new RequestReader(new Set(['old_name']));

function refused(body: unknown, message: RegExp | string): void {
  assert.throws(() => reader.read(body), { code: 'REQUEST_REFUSED', status: 400, message });
}

const without = (body: Readonly<Record<string, unknown>>, key: string) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => name !== key));

describe('readAccess', () => {
  it('looks at nothing but who asks', () => {
    const body = { password: 'p', worker_info: { username: 'a b', more: 1 }, more: {} };
    assert.deepEqual(readAccess(body), { username: 'a b', password: 'p' });
  });

  const bad: readonly (readonly [unknown, string])[] = [
    [[], 'request (value:[]) is not a dict'],
    ['x', 'request (value:"x") is not a dict'],
    [null, 'request (value:null) is not a dict'],
    [{}, "request['password'] is missing"],
    [{ password: 'p' }, "request['worker_info'] is missing"],
    [{ password: 1, worker_info: {} }, "request['password'] (value:1) is not a string"],
    [{ password: 'p', worker_info: [] }, "request['worker_info'] (value:[]) is not a dict"],
    [{ password: 'p', worker_info: {} }, "request['worker_info']['username'] is missing"],
    [
      { password: 'p', worker_info: { username: 7 } },
      "request['worker_info']['username'] (value:7) is not a string",
    ],
  ];
  for (const [body, message] of bad) {
    it(`refuses ${JSON.stringify(body)}`, () => {
      assert.throws(() => readAccess(body), { code: 'REQUEST_REFUSED', status: 400, message });
    });
  }
});

describe('RequestReader', () => {
  it('reads what workers send', () => {
    assert.deepEqual(reader.read(good), good);
    const spsa = { num_games: 60, wins: 17, losses: 17, draws: 26, sig: 1_069_182_125 };
    const full = { ...good, run_id, task_id: 0, stats: stats([0, 1, 3, 0, 0]), spsa, message: '' };
    assert.deepEqual(reader.read(full), full);
    assert.deepEqual(reader.read({ ...good, run_id: run_id.toUpperCase(), pgn: '' }).pgn, '');
  });

  it('takes true for one, as Python does, and whole numbers for fractions', () => {
    const odd = { ...good, worker_info: { ...info, concurrency: true, nps: 7 } };
    assert.equal(reader.read(odd).worker_info.concurrency, 1);
    assert.equal(reader.read(odd).worker_info.nps, 7);
    const totals = { ...stats([0, 0, 0, 0, 0]), draws: 2, pentanomial: [false, 0, true, 0, 0] };
    const spsa = { num_games: 2, wins: true, losses: true, draws: 0, sig: 0 };
    const read = reader.read({ ...good, run_id, task_id: true, stats: totals, spsa });
    assert.deepEqual([read.task_id, read.spsa?.wins, read.stats], [1, 1, stats([0, 0, 1, 0, 0])]);
  });

  it('keeps the start of long texts, without half a character', () => {
    const text = `${'x'.repeat(999)}😀${'x'.repeat(100_000)}`;
    const long = { ...info, uname: text, architecture: ['64bit', text], ARCH: text };
    const { uname, architecture, ARCH } = reader.read({ ...good, worker_info: long }).worker_info;
    assert.deepEqual([uname, architecture, ARCH], [ARCH, ['64bit', ARCH], ARCH]);
    assert.ok(ARCH.length === 1_000 && ARCH.isWellFormed());
  });

  it('knows every architecture, and unknown', () => {
    assert.equal(architectures.length, 29);
    for (const worker_arch of [...architectures, 'unknown']) {
      assert.ok(reader.read({ ...good, worker_info: { ...info, worker_arch } }));
    }
  });

  it('lets users in whose names are older than the rule', () => {
    assert.ok(reader.read({ ...good, worker_info: { ...info, username: 'old_name' } }));
    refused({ ...good, worker_info: { ...info, username: 'new_name' } }, /'username'\].*new_name/);
  });

  for (const key of Object.keys(info)) {
    it(`misses worker_info.${key}`, () => {
      const message = `request['worker_info']['${key}'] is missing`;
      refused({ ...good, worker_info: without(info, key) }, message);
    });
  }

  const badInfo: readonly (readonly [string, unknown])[] = [
    ['uname', 1],
    ['architecture', ['64bit']],
    ['architecture', ['64bit', 2]],
    ['architecture', 'ELF'],
    ['concurrency', 0],
    ['concurrency', 1.5],
    ['concurrency', '1'],
    ['concurrency', 1e300],
    ['concurrency', 65_537],
    ['nps', 1e9 + 1],
    ['max_memory', -1],
    ['min_threads', 0],
    ['username', 'a'],
    ['username', 'a b'],
    ['version', null],
    ['python_version', [3, 11]],
    ['python_version', [3, 11, -1]],
    ['gcc_version', [3, 11, 1, 1]],
    ['compiler', 'icc'],
    ['unique_key', '84b80805-5622-4d17-a1f4'],
    ['unique_key', '84b80805-5622-4d17-a1f4-08266b492c1c\n'],
    ['modified', 'no'],
    ['worker_arch', 'z80'],
    ['ARCH', {}],
    ['nps', -0.5],
    ['nps', 'fast'],
    ['nps', Number.POSITIVE_INFINITY],
    ['near_github_api_limit', 0],
  ];
  for (const [key, value] of badInfo) {
    it(`refuses ${JSON.stringify(value)} as worker_info.${key}`, () => {
      const text = (JSON.stringify(value) as string).replace(/[\\[\]{}.+*]/g, '\\$&');
      const message = new RegExp(`^request\\['worker_info'\\]\\['${key}'\\].*value:`);
      refused({ ...good, worker_info: { ...info, [key]: value } }, message);
      if (Array.isArray(value)) return;
      refused({ ...good, worker_info: { ...info, [key]: value } }, new RegExp(`value:${text}\\)`));
    });
  }

  const badTop: readonly (readonly [object, RegExp | string])[] = [
    [{ extra: 1 }, "request['extra'] is not in the schema"],
    [{ constructor: 1 }, "request['constructor'] is not in the schema"],
    [
      { worker_info: { ...info, extra: 1 } },
      "request['worker_info']['extra'] is not in the schema",
    ],
    [{ password: null }, "request['password'] (value:null) is not a string"],
    [{ run_id: 'x' }, /^request\['run_id'\] \(value:"x"\)/],
    [{ run_id, task_id: -1 }, /^request\['task_id'\] \(value:-1\)/],
    [{ task_id: 1 }, /^request\['run_id'\] is missing/],
    [{ pgn: 5 }, /'pgn'/],
    [{ message: 5 }, /'message'/],
    [{ stats: {} }, "request['stats']['wins'] is missing"],
    [{ stats: { ...draws(2), more: 1 } }, "request['stats']['more'] is not in the schema"],
    [{ stats: { ...draws(2), wins: -1 } }, /'wins'\] \(value:-1\)/],
    [{ stats: { ...draws(2), pentanomial: [1, 2, 3, 4] } }, /is not a list of 5/],
    [{ stats: { ...draws(2), crashes: 2 ** 32 + 1 } }, /'crashes'\] .* <= 4294967296$/],
    [{ stats: { ...draws(2), wins: 1 } }, /'stats'\].*do not agree/],
    [{ stats: { ...draws(4), wins: 1, draws: 2, losses: 1 } }, undefined as never],
    [{ stats: stats([0, 1, 0, 1, 0], { wins: 2, losses: 2, draws: 0 }) }, /do not agree/],
    [{ stats: stats([0, 0, 0, 0, 1], { wins: 1, draws: 1 }) }, /do not agree/],
    [{ spsa: { wins: 0, losses: 0, draws: 0, num_games: 0 } }, /\['sig'\] is missing/],
    [{ spsa: { wins: 1, losses: 0, draws: 0, num_games: 1, sig: 0 } }, /odd num_games/],
    [{ spsa: { wins: 1, losses: 0, draws: 0, num_games: 2, sig: 0 } }, /does not add up/],
  ];
  for (const [change, message] of badTop) {
    const verb = message === undefined ? 'takes' : 'refuses';
    it(`${verb} ${JSON.stringify(change).slice(0, 80)}`, () => {
      const body = { ...good, ...change };
      if (message === undefined) assert.ok(reader.read(body));
      else refused(body, message);
    });
  }

  it('shows no more of a wrong value than it must', () => {
    assert.throws(
      () => reader.read({ ...good, message: 7, pgn: { long: 'x'.repeat(1e6) } }),
      (error: Error) => error.message.length < 200,
    );
  });
});

describe('requireFor', () => {
  const all = { ...good, run_id, task_id: 0, stats: draws(2), pgn: 'H4s', message: '' };

  for (const [endpoint, keys] of Object.entries(requirements)) {
    it(`knows what ${endpoint} cannot do without`, () => {
      const name = endpoint as keyof typeof requirements;
      assert.equal(requireFor(name, all), all);
      for (const key of keys) {
        const refusal = { status: 400, message: `Missing ${key}` };
        assert.throws(() => requireFor(name, without(all, key) as never), refusal);
      }
    });
  }

  it('wants the task of a run that a log is about', () => {
    assert.ok(requireFor('worker_log', good));
    assert.throws(() => requireFor('worker_log', { ...good, run_id }), {
      status: 400,
      message: 'Missing task_id for worker_log run context',
    });
  });
});
