import { architectures, patterns } from '../protocol/patterns.ts';
import { type EloModel, eloModels, isEloModel } from '../statistics/llr.ts';
import { newSprt, type Sprt } from '../statistics/sprt.ts';
import { newSpsa, type Spsa } from '../statistics/spsa.ts';
import {
  gameDuration,
  sprtBatchSize,
  timeControlPattern,
  timeControlRatio,
} from '../statistics/time-control.ts';
import { gamesMax } from '../world/manage.ts';
import type { RunArgs } from '../world/records.ts';
import { archFilter } from '../world/request-task.ts';
import {
  any,
  demandFaultless,
  type Field,
  type FieldFault,
  type FieldOptions,
  type Fields,
  flag,
  type InputOf,
  integer,
  integerIn,
  number,
  optional,
  readFields,
  text,
  words,
} from './fields.ts';

/** The state of the fleet that submissions are checked against. */
export interface SubmissionContext {
  /** The submitter. */
  readonly username: string;
  /** The books that workers can be told the checksum of. */
  readonly books: ReadonlyMap<string, unknown> | ReadonlySet<string>;
  /** The nets that workers can get here. */
  readonly nets: ReadonlySet<string>;
  /** True if any even number of games will do, as for trying out a worker. @default false */
  readonly trial?: boolean | undefined;
}

export type Submission = ReturnType<typeof readSubmission>;

const sprtGames = 800_000;
const gamesStep = 1_000;
const textMax = 10_000;
const longRatio = 4;
const namesShown = 10;
/** The repository of branches for which none is named. */
export const officialRepo = 'https://github.com/official-stockfish/Stockfish';

/** Makes the arguments of a run from the input of a person; throws `INPUT_INVALID`. */
export function readSubmission(sent: unknown, context: SubmissionContext) {
  const faults: FieldFault[] = [];
  const fault = (field: string, message: string) => faults.push({ field, message });
  const isTest = Object(sent).sprt !== undefined;
  const read = readFields(submissionFields(context, isTest), sent, faults);
  const { rescheduled_from, sprt: sentSprt, spsa: sentSpsa, new_tc, ...given } = read;
  const { master_repo, arch_filter, compiler, ...plain } = given;
  const { tc, threads, num_games: numGames, throughput: itp } = plain;
  const batch = sprtBatchSize(tc, threads);
  const sprt = sentSprt === undefined ? undefined : readSprt(sentSprt, batch, faults);
  const spsa = sentSpsa === undefined ? undefined : readSpsa(sentSpsa, numGames, faults);
  if (sprt && spsa) fault('spsa', 'must be absent where sprt is given: a run is one test');
  if (spsa && plain.base_signature !== plain.new_signature) {
    fault('base_signature', 'must be that of new_signature: a tuning plays one engine');
  }
  demandFaultless(faults);
  const isLong = sprt !== undefined && timeControlRatio(tc, threads) > longRatio;
  const info = isLong && !plain.info.startsWith('LTC: ') ? `LTC: ${plain.info}` : plain.info;
  const args: RunArgs = {
    ...plain,
    info,
    itp,
    new_tc: new_tc ?? tc,
    base_options: oneBlank(plain.base_options),
    new_options: oneBlank(plain.new_options),
    username: context.username,
    ...(master_repo !== undefined && { master_repo }),
    ...(arch_filter !== undefined && { arch_filter }),
    ...(compiler !== undefined && { compiler }),
    ...(sprt && { sprt }),
    ...(spsa && { spsa }),
  };
  return { args, rescheduledFrom: rescheduled_from?.toLowerCase() };
}

const anyText = {
  rule: `text of at most ${textMax} characters`,
  holds: (value: string) => value.length <= textMax,
  absent: '',
};
const tag = {
  rule: 'the name of a branch: 1 to 200 characters without blanks',
  holds: (value: string) => /^[^\s\p{Cc}]{1,200}$/u.test(value),
};
const commit = (of: string): FieldOptions<string> => ({
  rule: `the commit of ${of}: 40 hexadecimal digits in lower case`,
  holds: (value) => /^[0-9a-f]{40}$/.test(value),
});
const signature = {
  rule: 'what the engine prints at the end of its bench: a positive integer',
  holds: (value: string) => patterns.signature.test(value) && value.length <= 20,
};
const engineOptions = {
  rule: 'ASCII words like Hash=16, with blanks between them, or nothing',
  holds: (value: string) => patterns.optionList.test(oneBlank(value)) && value.length <= textMax,
  absent: 'Hash=16',
};
const netNames = (known: ReadonlySet<string>): FieldOptions<readonly string[]> => ({
  rule: 'different names like nn-0123456789ab.nnue, all added here before (fleet net add)',
  holds: (names) =>
    new Set(names).size === names.length &&
    names.every((net) => patterns.netName.test(net) && known.has(net)),
  absent: [],
});
const repository = {
  rule: 'https://github.com/<user>/<repository>, without anything after it',
  holds: (value: string) => patterns.githubRepo.test(value),
};
const timeControl = {
  rule: 'seconds per game like 10+0.1, or per moves like 40/60+0.6, and not without any time',
  holds: (value: string) =>
    timeControlPattern.test(value) && value.length <= 50 && gameDuration(value) > 0,
};

/** The fields that can change while a run is played. */
export const changeableFields: {
  readonly priority: Field<number>;
  readonly throughput: Field<number>;
  readonly info: Field<string>;
} = {
  priority: integerIn(-100, 100, { about: 'priority (higher goes first; default 0)', absent: 0 }),
  throughput: integerIn(1, 500, {
    about: 'throughput (share of the fleet in percent; default 100)',
    rule: 'a share in percent, an integer from 1 to 500',
    absent: 100,
  }),
  info: text({ ...anyText, about: 'description' }),
};

const fromGithub = '(as GitHub says, if left out)';

/** Every field of a run, in the order in which help shows them. */
function submissionFields({ books, nets, trial }: SubmissionContext, isTest: boolean) {
  const step = trial ? 2 : gamesStep;
  return {
    new_tag: text({ ...tag, about: 'branch to test' }),
    base_tag: text({ ...tag, about: 'branch it plays against' }),
    resolved_new: text({ ...commit('new_tag'), about: `commit of the branch ${fromGithub}` }),
    resolved_base: text({ ...commit('base_tag'), about: `commit of the base ${fromGithub}` }),
    new_signature: text({ ...signature, about: `bench of the branch ${fromGithub}` }),
    base_signature: text({ ...signature, about: `bench of the base ${fromGithub}` }),
    new_options: text({ ...engineOptions, about: 'options of the branch (default Hash=16)' }),
    base_options: text({ ...engineOptions, about: 'options of the base (default Hash=16)' }),
    new_nets: words({ ...netNames(nets), about: 'nets of the branch (separated by commas)' }),
    base_nets: words({ ...netNames(nets), about: 'nets of the base (separated by commas)' }),
    msg_new: text({ ...anyText, about: 'message of the commit of the branch' }),
    msg_base: text({ ...anyText, about: 'message of the commit of the base' }),
    tests_repo: text({
      ...repository,
      about: 'repository of the branches (default: the official one)',
      absent: officialRepo,
    }),
    master_repo: optional(text({ ...repository, about: 'repository that it is a fork of' })),
    tc: text({ ...timeControl, about: 'time (seconds a game and a move, like 10+0.1)' }),
    new_tc: optional(text({ ...timeControl, about: 'time of the branch (if it has another)' })),
    book: text({
      about: 'book of openings',
      rule: `a book that was added here (fleet book add): ${someOf(books)}`,
      holds: (value) => patterns.book.test(value) && books.has(value),
    }),
    book_depth: text({
      about: 'moves of the book (default 8)',
      rule: 'a number of moves from 1 to 999',
      holds: (value) => /^[1-9]\d{0,2}$/.test(value),
      absent: '8',
    }),
    threads: integerIn(1, 1_024, { about: 'threads of each engine (default 1)', absent: 1 }),
    num_games: integer({
      about: 'games (a multiple of 1000; for an SPRT 800000 if left out)',
      rule: `a number of games from ${step} to ${gamesMax} that ${step} divides`,
      holds: (value) => value >= step && value <= gamesMax && value % step === 0,
      absent: isTest ? sprtGames : undefined,
    }),
    sprt: any,
    spsa: any,
    ...changeableFields,
    arch_filter: optional(
      text({
        about: 'architectures (a pattern like avx2|bmi2)',
        rule: 'a regular expression that matches at least one architecture, like avx2|bmi2',
        holds: matchesAny,
      }),
    ),
    compiler: optional(
      text({
        about: 'compiler (g++ or clang++)',
        rule: 'g++ or clang++',
        holds: (value) => value === 'g++' || value === 'clang++',
      }),
    ),
    auto_purge: flag(false, { about: 'purge automatically at the end (set bad workers aside)' }),
    adjudication: flag(true, { about: 'play every game to its end', flag: '--no-adjudication' }),
    rescheduled_from: optional(
      text({
        about: 'run that this one repeats',
        rule: 'the 24 hexadecimal digits of a run',
        holds: (value) => patterns.runId.test(value),
      }),
    ),
  };
}

/** The fields of a run, for callers that need only their names and help. */
export const runFields: Fields = submissionFields(
  { username: '', books: new Set(), nets: new Set() },
  false,
);

function matchesAny(expression: string): boolean {
  if (expression === '' || expression.length > 500) return false;
  const { accepted, problem } = archFilter(expression);
  return problem === undefined && architectures.some((name) => accepted?.has(name));
}

function someOf(books: SubmissionContext['books']): string {
  const names = [...books.keys()];
  const more = names.length > namesShown ? ' and others' : '';
  return `${names.slice(0, namesShown).join(', ') || 'none so far'}${more}`;
}

function oneBlank(value: string): string {
  return value.trim().replaceAll(/\s+/g, ' ');
}

const eloMax = 10;
const eloGapMin = 0.5;
const paramsMax = 10_000;

const bound = number({
  rule: `a number from -${eloMax} to ${eloMax}`,
  holds: (value) => Math.abs(value) <= eloMax,
});
const sprtFields = {
  elo0: { ...bound, about: 'lower bound' },
  elo1: { ...bound, about: 'upper bound' },
  elo_model: text({
    about: 'Elo model',
    rule: `one of ${eloModels.join(', ')}`,
    holds: isEloModel,
    absent: 'normalized',
  }),
};

/** The sequential test that the fields ask for. */
function readSprt(sent: unknown, batch_size: number, faults: FieldFault[]): Sprt {
  const before = faults.length;
  const { elo0, elo1, elo_model } = readFields(sprtFields, sent, faults, 'sprt.');
  if (faults.length === before && elo1 < elo0 + eloGapMin) {
    const message = `must be at least elo0 + ${eloGapMin}, got ${elo1} with elo0 ${elo0}`;
    faults.push({ field: 'sprt.elo1', message });
  }
  return newSprt({ elo0, elo1, elo_model: elo_model as EloModel, batch_size });
}

const share = (about: string, absent: number) =>
  number({
    about,
    rule: 'a number above 0 and up to 1',
    holds: (value) => value > 0 && value <= 1,
    absent,
  });
const spsaFields = {
  algorithm: text({ rule: 'classic', holds: (value) => value === 'classic', absent: 'classic' }),
  A: share('A (as a share of the iterations)', 0.1),
  alpha: share('alpha', 0.602),
  gamma: share('gamma', 0.101),
  raw_params: text({
    about: 'parameters (a line each: name,start,min,max,c_end,r_end)',
    rule: `lines of name,start,min,max,c_end,r_end: from 1 to ${paramsMax}`,
    holds: (value) => value !== '' && value.split('\n').length <= paramsMax,
  }),
};
type SpsaInput = InputOf<typeof spsaFields>;

/** The fields of a run and of its test, by their paths: `tc`, `sprt.elo0`. */
export const allRunFields: Fields = {
  ...runFields,
  ...prefixed('sprt.', sprtFields),
  ...prefixed('spsa.', spsaFields),
};

function prefixed(prefix: string, fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).map(([name, one]) => [prefix + name, one]));
}

/** The tuning that the fields ask for. */
function readSpsa(sent: unknown, numGames: number, faults: FieldFault[]): Spsa | undefined {
  const input: SpsaInput = readFields(spsaFields, sent, faults, 'spsa.');
  const { A: ratioA, alpha, gamma, raw_params: rawParams } = input;
  const complain = (message: string) => faults.push({ field: 'spsa.raw_params', message });
  if (rawParams === '') return undefined;
  try {
    const spsa = newSpsa({ rawParams, numGames, ratioA, alpha, gamma });
    checkParams(spsa, complain);
    return spsa;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    complain(error.message.replace(/^spsa: /, ''));
    return undefined;
  }
}

function checkParams({ params }: Spsa, fault: (message: string) => void): void {
  const seen = new Set<string>();
  for (const { name, start, min, max } of params) {
    const complain = (message: string) => fault(`${name}: ${message}`);
    if (!/^[!-+\--~]{1,100}$/.test(name)) complain('a name must be ASCII without blanks');
    if (seen.has(name)) complain('must be given once');
    if (min > start || start > max) complain('start must be from min to max');
    seen.add(name);
  }
}
