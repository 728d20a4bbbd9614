import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { InputError } from '../src/operations/fields.ts';
import { readSubmission } from '../src/operations/submission.ts';
import { completeSubmission, submissionText } from '../src/operations/submission-source.ts';

const context = {
  username: 'ada',
  books: new Set(['noob.epd', 'pairs.pgn']),
  nets: new Set(['nn-0123456789ab.nnue', 'nn-ba9876543210.nnue']),
};
const plain = {
  new_tag: 'feature',
  base_tag: 'master',
  resolved_new: 'a'.repeat(40),
  resolved_base: 'b'.repeat(40),
  new_signature: '1234567',
  base_signature: '7654321',
  tc: '10+0.1',
  book: 'noob.epd',
  num_games: 20_000,
};
const { num_games: _, ...open } = plain;
const sprt = { ...open, sprt: { elo0: 0, elo1: 2 } };
const tuning = {
  ...plain,
  base_signature: plain.new_signature,
  spsa: { raw_params: 'x,100,0,200,10,0.002\ny,5,-5,5,1,0.002' },
};

const read = (input: unknown, more = {}) => readSubmission(input, { ...context, ...more });

/** Faults of a submission, by field. */
function faultsOf(input: unknown, more = {}): readonly { field: string; message: string }[] {
  try {
    read(input, more);
  } catch (error) {
    assert.ok(error instanceof InputError);
    assert.equal(error.status, 422);
    return error.faults;
  }
  return [];
}

describe('a submission', () => {
  it('gets what was left out, and keeps what was said', () => {
    const { args, rescheduledFrom } = read({ ...plain, info: '  Try it. ', priority: '-1' });
    assert.equal(rescheduledFrom, undefined);
    assert.deepEqual(args, {
      ...plain,
      info: 'Try it.',
      msg_base: '',
      msg_new: '',
      base_nets: [],
      new_nets: [],
      base_options: 'Hash=16',
      new_options: 'Hash=16',
      tests_repo: 'https://github.com/official-stockfish/Stockfish',
      new_tc: '10+0.1',
      book_depth: '8',
      threads: 1,
      auto_purge: false,
      throughput: 100,
      itp: 100,
      priority: -1,
      adjudication: true,
      username: 'ada',
    });
  });

  it('takes numbers and flags as text, as forms and command lines send them', () => {
    const texts = { num_games: '20000', threads: '2', book_depth: 4, auto_purge: 'true' };
    const { args } = read({ ...plain, ...texts, new_nets: 'nn-0123456789ab.nnue' });
    assert.deepEqual(
      [args.num_games, args.threads, args.book_depth, args.auto_purge, args.new_nets],
      [20_000, 2, '4', true, ['nn-0123456789ab.nnue']],
    );
  });

  it('writes options with single blanks', () => {
    assert.equal(
      read({ ...plain, new_options: ' Hash=64   X=1 ' }).args.new_options,
      'Hash=64 X=1',
    );
  });

  it('makes a sequential test: its games, its batches, its bounds', () => {
    const { args } = read(sprt);
    assert.equal(args.num_games, 800_000);
    assert.equal(args.sprt?.batch_size, 16);
    assert.equal(args.sprt?.elo_model, 'normalized');
    assert.equal(read({ ...sprt, tc: '60+0.6' }).args.info, 'LTC: ');
    assert.equal(read({ ...sprt, tc: '60+0.6', info: 'LTC: so' }).args.info, 'LTC: so');
  });

  it('makes a tuning of its lines', () => {
    const { args } = read(tuning);
    assert.deepEqual(
      args.spsa?.params.map(({ name, theta }) => [name, theta]),
      [
        ['x', 100],
        ['y', 5],
      ],
    );
    assert.equal(args.spsa?.num_iter, 10_000);
  });

  const good: readonly (readonly [string, object])[] = [
    ['moves in a time', { tc: '40/60+0.6' }],
    ['time odds', { new_tc: '5+0.05' }],
    ['an architecture filter', { arch_filter: 'avx2|bmi2' }],
    ['a compiler', { compiler: 'clang++' }],
    ['no options', { new_options: '', base_options: '' }],
    ['nets', { base_nets: ['nn-0123456789ab.nnue'], new_nets: ['nn-ba9876543210.nnue'] }],
    ['the most games', { num_games: 3_200_000 }],
    ['a run to repeat', { rescheduled_from: 'ABCDEF012345678901234567' }],
  ];
  for (const [name, change] of good) {
    it(`takes ${name}`, () => assert.deepEqual(faultsOf({ ...plain, ...change }), []));
  }

  const bad: readonly (readonly [string, object])[] = [
    ['new_tag', { new_tag: '' }],
    ['new_tag', { new_tag: 'two words' }],
    ['base_tag', { base_tag: undefined }],
    ['base_tag', { base_tag: 'x'.repeat(201) }],
    ['resolved_new', { resolved_new: 'A'.repeat(40) }],
    ['resolved_base', { resolved_base: 'b'.repeat(39) }],
    ['new_signature', { new_signature: '0123' }],
    ['base_signature', { base_signature: -5 }],
    ['tests_repo', { tests_repo: 'https://github.com/a/b/' }],
    ['tests_repo', { tests_repo: 'http://github.com/a/b' }],
    ['master_repo', { master_repo: 'b' }],
    ['new_options', { new_options: 'Hash' }],
    ['base_options', { base_options: 'Name=ü' }],
    ['tc', { tc: '10 + 0.1' }],
    ['tc', { tc: '0+0' }],
    ['tc', { tc: undefined }],
    ['tc', { tc: '5:00+1' }],
    ['new_tc', { new_tc: '' }],
    ['book', { book: 'other.epd' }],
    ['book', { book: undefined }],
    ['book_depth', { book_depth: '0' }],
    ['threads', { threads: 0 }],
    ['threads', { threads: 1.5 }],
    ['throughput', { throughput: 0 }],
    ['throughput', { throughput: 501 }],
    ['priority', { priority: 'high' }],
    ['priority', { priority: null }],
    ['num_games', { num_games: undefined }],
    ['num_games', { num_games: 999 }],
    ['num_games', { num_games: 1_500 }],
    ['num_games', { num_games: 3_201_000 }],
    ['num_games', { num_games: '1e4' }],
    ['base_nets', { base_nets: ['nn-000000000000.nnue'] }],
    ['new_nets', { new_nets: ['nn-0123456789ab.nnue', 'nn-0123456789ab.nnue'] }],
    ['new_nets', { new_nets: [5] }],
    ['auto_purge', { auto_purge: 'yes' }],
    ['adjudication', { adjudication: 1 }],
    ['arch_filter', { arch_filter: '(' }],
    ['arch_filter', { arch_filter: 'z80' }],
    ['arch_filter', { arch_filter: '(a+)+$(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*x'.repeat(20) }],
    ['compiler', { compiler: 'icc' }],
    ['info', { info: 'x'.repeat(10_001) }],
    ['rescheduled_from', { rescheduled_from: '12' }],
    ['sprt', { sprt: 5 }],
    ['sprt.elo1', { sprt: { elo0: 0 } }],
    ['sprt.elo0', { sprt: { elo0: 'x', elo1: 2 } }],
    ['sprt.elo1', { sprt: { elo0: 2, elo1: 2.4 } }],
    ['sprt.elo1', { sprt: { elo0: 0, elo1: 10.5 } }],
    ['sprt.elo_model', { sprt: { elo0: 0, elo1: 2, elo_model: 'other' } }],
    ['sprt.alpha', { sprt: { elo0: 0, elo1: 2, alpha: 0.1 } }],
    ['colour', { colour: 'green' }],
  ];
  for (const [field, change] of bad) {
    it(`refuses ${JSON.stringify(change).slice(0, 60)}, naming ${field}`, () => {
      const faults = faultsOf({ ...plain, ...change }).filter((one) => !one.field.includes('spsa'));
      if (field.startsWith('sprt')) assert.ok(faults.some((fault) => fault.field === field));
      else
        assert.deepEqual(
          faults.map((fault) => fault.field),
          [field],
        );
    });
  }

  const badTunings: readonly (readonly [string, object])[] = [
    ['spsa.raw_params', { raw_params: '' }],
    ['spsa.raw_params', {}],
    ['spsa.raw_params', { raw_params: 'x,1,0,2,1' }],
    ['spsa.raw_params', { raw_params: 'x,1,0,2,0,1' }],
    ['spsa.raw_params', { raw_params: 'x,3,0,2,1,1' }],
    ['spsa.raw_params', { raw_params: 'x,1,0,2,1,1\nx,1,0,2,1,1' }],
    ['spsa.raw_params', { raw_params: 'a b,1,0,2,1,1' }],
    ['spsa.A', { ...tuning.spsa, A: 0 }],
    ['spsa.alpha', { ...tuning.spsa, alpha: 'x' }],
    ['spsa.gamma', { ...tuning.spsa, gamma: 2 }],
    ['spsa.algorithm', { ...tuning.spsa, algorithm: 'other' }],
  ];
  for (const [field, spsa] of badTunings) {
    it(`refuses the tuning ${JSON.stringify(spsa).slice(0, 60)}, naming ${field}`, () => {
      assert.deepEqual(
        faultsOf({ ...tuning, spsa }).map((fault) => fault.field),
        [field],
      );
    });
  }

  it('is one test only, and a tuning plays one engine', () => {
    const both = faultsOf({ ...tuning, sprt: sprt.sprt });
    assert.deepEqual(
      both.map(({ field }) => field),
      ['spsa'],
    );
    const two = faultsOf({ ...tuning, base_signature: '7654321' });
    assert.deepEqual(
      two.map(({ field }) => field),
      ['base_signature'],
    );
  });

  it('says all that is wrong at once, and what was probably meant', () => {
    const faults = faultsOf({ ...plain, thread: 1, tc: 'x', book: 'no.epd' });
    assert.deepEqual(faults.map(({ field }) => field).sort(), ['book', 'tc', 'thread']);
    assert.match(faults[0]?.message ?? '', /not known; did you mean threads\?$/);
    assert.match(faults.map(({ message }) => message).join('\n'), /noob\.epd, pairs\.pgn/);
    for (const input of [null, [], 'x', 5]) {
      assert.match(faultsOf(input)[0]?.message ?? '', /an object with named fields/);
    }
  });

  it('may have few games if it is only a trial', () => {
    assert.deepEqual(faultsOf({ ...plain, num_games: 8 }, { trial: true }), []);
    assert.deepEqual(
      faultsOf({ ...plain, num_games: 7 }, { trial: true }).map(({ field }) => field),
      ['num_games'],
    );
  });

  it('is told to the event log in one line', () => {
    assert.equal(
      submissionText(read({ ...sprt, threads: 8, new_tc: '5+0.1' }).args),
      'SPRT<0.00,2.00> TC:10+0.1[5+0.1] Book:noob.epd Threads:8(SMP) Hash:16/16',
    );
    assert.equal(
      submissionText(read({ ...plain, tc: '60+0.6', new_options: '' }).args),
      'NumGames[20000] TC:60+0.6(LTC) Book:noob.epd Threads:1 Hash:16/0',
    );
    assert.match(submissionText(read(tuning).args), /^SPSA\[20000\] TC/);
  });
});

describe('a submission that leaves out what GitHub knows', () => {
  const { resolved_new, resolved_base, new_signature, base_signature, ...short } = plain;
  const [net] = context.nets;
  const branch = { sha: resolved_new, message: '', signature: '1234567', info: 'Why', nets: [net] };
  const asked: string[][] = [];
  const github = {
    branch: async (repo: string, ref: string) => {
      asked.push([repo, ref]);
      if (ref === 'gone') return undefined;
      if (ref === 'down') throw new Error('down');
      return { ...branch, nets: [...context.nets] };
    },
  };

  it('is completed, and what it says itself stays', async () => {
    const tests_repo = 'https://github.com/ada/engine';
    const sent = { ...short, tests_repo, base_signature: '99', base_nets: [] };
    const { args } = read(await completeSubmission(sent, github));
    assert.deepEqual(
      [args.resolved_new, args.new_signature, args.base_signature, args.info, args.msg_base],
      [resolved_new, '1234567', '99', 'Why', 'Why'],
    );
    assert.deepEqual([args.new_nets, args.base_nets], [[...context.nets], []]);
    assert.deepEqual(asked, [
      [tests_repo, 'feature'],
      [tests_repo, 'master'],
    ]);
  });

  it('asks nobody if nothing is missing, or nobody can be asked', async () => {
    asked.length = 0;
    assert.deepEqual(read(await completeSubmission(plain, github)), read(plain));
    assert.equal(await completeSubmission(short, undefined), short);
    assert.equal(await completeSubmission(null, github), null);
    await completeSubmission({ ...short, tests_repo: 'http://evil.example/a/b' }, github);
    assert.deepEqual(asked, []);
  });

  it('is told what is missing while GitHub cannot be asked', async () => {
    const faults = faultsOf(await completeSubmission({ ...short, new_tag: 'down' }, github));
    assert.deepEqual(
      faults.map(({ field }) => field),
      ['resolved_new', 'new_signature'],
    );
  });

  it('is told that there is no such branch', async () => {
    await assert.rejects(completeSubmission({ ...short, new_tag: 'gone' }, github), {
      code: 'INPUT_INVALID',
      message: /^new_tag: must be a branch of .*, and GitHub has none called gone$/,
    });
  });
});
