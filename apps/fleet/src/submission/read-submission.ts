import { FieldReader } from '../field-reader.ts';
import { architectures, patterns } from '../protocol/schema.ts';
import { archFilter } from '../scheduling/hand-out.ts';
import type { RunArgs } from '../scheduling/records.ts';
import type { EloModel } from '../statistics/llr.ts';
import { newSprt, type Sprt } from '../statistics/sprt.ts';
import { newSpsa, type Spsa } from '../statistics/spsa.ts';
import {
  gameDuration,
  sprtBatchSize,
  timeControlPattern,
  timeControlRatio,
} from '../statistics/time-control.ts';

/** What a submission is judged by. */
export interface SubmissionContext {
  /** Who submits. */
  readonly username: string;
  /** The books that workers can be told the checksum of. */
  readonly books: ReadonlyMap<string, unknown> | ReadonlySet<string>;
  /** The nets that workers can get here. */
  readonly nets: ReadonlySet<string>;
  /** Whether any even number of games will do, as for trying out a worker. @default false */
  readonly trial?: boolean | undefined;
}

export interface Submission {
  readonly args: RunArgs;
  readonly rescheduledFrom: string | undefined;
}

const fields = [
  'adjudication',
  'arch_filter',
  'auto_purge',
  'base_nets',
  'base_options',
  'base_signature',
  'base_tag',
  'book',
  'book_depth',
  'compiler',
  'info',
  'master_repo',
  'msg_base',
  'msg_new',
  'new_nets',
  'new_options',
  'new_signature',
  'new_tag',
  'new_tc',
  'num_games',
  'priority',
  'rescheduled_from',
  'resolved_base',
  'resolved_new',
  'sprt',
  'spsa',
  'tc',
  'tests_repo',
  'threads',
  'throughput',
] as const;

const gamesMax = 3_200_000;
const sprtGames = 800_000;
const gamesStep = 1_000;
const textMax = 10_000;
const longRatio = 4;
const namesShown = 10;
/** Where branches are, unless it is said otherwise. */
export const officialRepo = 'https://github.com/official-stockfish/Stockfish';

/** Makes a run's arguments of what a person sent; throws `INPUT_INVALID`. */
export function readSubmission(input: unknown, context: SubmissionContext): Submission {
  const reader = new FieldReader(input);
  reader.only(fields);
  const engines = readEngines(reader, context);
  const games = readGames(reader, context);
  const sprt = reader.has('sprt')
    ? readSprt(reader.inner('sprt'), sprtBatchSize(games.tc, games.threads))
    : undefined;
  const spsa = reader.has('spsa') ? readSpsa(reader.inner('spsa'), games.num_games) : undefined;
  if (sprt && spsa) reader.fault('spsa', 'must be absent where sprt is given: a run is one test');
  if (spsa && engines.base_signature !== engines.new_signature) {
    reader.fault('base_signature', 'must be that of new_signature: a tuning plays one engine');
  }
  const filter = readWorkers(reader);
  const rescheduledFrom = optional(reader, 'rescheduled_from', {
    rule: 'the 24 hexadecimal digits of a run',
    holds: (value) => patterns.runId.test(value),
  });
  reader.check();
  const isLong = sprt !== undefined && timeControlRatio(games.tc, games.threads) > longRatio;
  const info = isLong && !games.info.startsWith('LTC: ') ? `LTC: ${games.info}` : games.info;
  const rule = { ...(sprt && { sprt }), ...(spsa && { spsa }) };
  const { username } = context;
  const itp = games.throughput;
  const args = { ...engines, ...games, info, itp, ...filter, username, ...rule };
  return { args, rescheduledFrom: rescheduledFrom?.toLowerCase() };
}

type Engines = Pick<
  RunArgs,
  | 'tests_repo'
  | 'master_repo'
  | `${'base' | 'new'}_${'tag' | 'nets' | 'options' | 'signature'}`
  | `msg_${'base' | 'new'}`
  | `resolved_${'base' | 'new'}`
>;

function readEngines(reader: FieldReader, { nets }: SubmissionContext): Engines {
  const tag = (name: string) =>
    reader.text(name, {
      rule: 'the name of a branch: 1 to 200 characters without blanks',
      holds: (value) => /^[^\s\p{Cc}]{1,200}$/u.test(value),
    });
  const sha = (name: string, of: string) =>
    reader.text(name, {
      rule: `the commit of ${of}: 40 hexadecimal digits in lower case`,
      holds: (value) => /^[0-9a-f]{40}$/.test(value),
    });
  const signature = (name: string) =>
    reader.text(name, {
      rule: 'what the engine prints at the end of its bench: a positive integer',
      holds: (value) => patterns.signature.test(value) && value.length <= 20,
    });
  const options = (name: string) =>
    oneBlank(
      reader.text(name, {
        rule: 'ASCII words like Hash=16, with blanks between them, or nothing',
        holds: (value) => patterns.optionList.test(oneBlank(value)) && value.length <= textMax,
        absent: 'Hash=16',
      }),
    );
  const netsOf = (name: string) =>
    reader.words(name, {
      rule: 'different names like nn-0123456789ab.nnue, all added here before (fleet net add)',
      holds: (names) =>
        new Set(names).size === names.length &&
        names.every((net) => patterns.netName.test(net) && nets.has(net)),
      absent: [],
    });
  const message = (name: string) => reader.text(name, { ...anyText, absent: '' });
  const master_repo = optional(reader, 'master_repo', repository);
  return {
    base_tag: tag('base_tag'),
    new_tag: tag('new_tag'),
    msg_base: message('msg_base'),
    msg_new: message('msg_new'),
    base_nets: netsOf('base_nets'),
    new_nets: netsOf('new_nets'),
    resolved_base: sha('resolved_base', 'base_tag'),
    resolved_new: sha('resolved_new', 'new_tag'),
    base_options: options('base_options'),
    new_options: options('new_options'),
    base_signature: signature('base_signature'),
    new_signature: signature('new_signature'),
    tests_repo: reader.text('tests_repo', { ...repository, absent: officialRepo }),
    ...(master_repo !== undefined && { master_repo }),
  };
}

type Games = Pick<
  RunArgs,
  | 'info'
  | 'num_games'
  | 'tc'
  | 'new_tc'
  | 'book'
  | 'book_depth'
  | 'threads'
  | 'auto_purge'
  | 'throughput'
  | 'priority'
  | 'adjudication'
>;

function readGames(reader: FieldReader, { books, trial }: SubmissionContext): Games {
  const tc = reader.text('tc', timeControl);
  const step = trial ? 2 : gamesStep;
  return {
    info: reader.text('info', { ...anyText, absent: '' }),
    num_games: reader.integer('num_games', {
      rule: `a number of games from ${step} to ${gamesMax} that ${step} divides`,
      holds: (value) => value >= step && value <= gamesMax && value % step === 0,
      absent: reader.has('sprt') ? sprtGames : undefined,
    }),
    tc,
    new_tc: reader.text('new_tc', { ...timeControl, absent: tc }),
    book: reader.text('book', {
      rule: `a book that was added here (fleet book add): ${someOf(books)}`,
      holds: (value) => patterns.book.test(value) && books.has(value),
    }),
    book_depth: reader.text('book_depth', {
      rule: 'a number of moves from 1 to 999',
      holds: (value) => /^[1-9]\d{0,2}$/.test(value),
      absent: '8',
    }),
    threads: reader.integer('threads', {
      rule: 'an integer from 1 to 1024',
      holds: (value) => value >= 1 && value <= 1_024,
      absent: 1,
    }),
    auto_purge: reader.flag('auto_purge', false),
    throughput: reader.integer('throughput', {
      rule: 'a share in percent, an integer from 1 to 500',
      holds: (value) => value >= 1 && value <= 500,
      absent: 100,
    }),
    priority: reader.integer('priority', {
      rule: 'an integer from -100 to 100',
      holds: (value) => Math.abs(value) <= 100,
      absent: 0,
    }),
    adjudication: reader.flag('adjudication', true),
  };
}

function readWorkers(reader: FieldReader): Pick<RunArgs, 'arch_filter' | 'compiler'> {
  const arch_filter = optional(reader, 'arch_filter', {
    rule: 'a regular expression that matches at least one architecture, like avx2|bmi2',
    holds: matchesAny,
  });
  const compiler = optional(reader, 'compiler', {
    rule: 'g++ or clang++',
    holds: (value) => value === 'g++' || value === 'clang++',
  });
  return { ...(arch_filter !== undefined && { arch_filter }), ...(compiler && { compiler }) };
}

const anyText = {
  rule: `text of at most ${textMax} characters`,
  holds: (value: string) => value.length <= textMax,
};

const repository = {
  rule: 'https://github.com/<user>/<repository>, without anything after it',
  holds: (value: string) => patterns.githubRepo.test(value) && value.length <= 200,
};

const timeControl = {
  rule: 'seconds per game like 10+0.1, or per moves like 40/60+0.6, and not without any time',
  holds: (value: string) =>
    timeControlPattern.test(value) && value.length <= 50 && gameDuration(value) > 0,
};

function optional(
  reader: FieldReader,
  name: string,
  rule: { readonly rule: string; readonly holds: (value: string) => boolean },
): string | undefined {
  return reader.has(name) ? reader.text(name, rule) : undefined;
}

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

const models: readonly string[] = ['normalized', 'logistic', 'BayesElo'] satisfies EloModel[];
const eloMax = 10;
const eloGapMin = 0.5;
const paramsMax = 10_000;

/** The sequential test that the fields ask for. */
export function readSprt(reader: FieldReader, batch_size: number): Sprt {
  reader.only(['elo0', 'elo1', 'elo_model']);
  const bound = (name: string) =>
    reader.number(name, {
      rule: `a number from -${eloMax} to ${eloMax}`,
      holds: (value) => Math.abs(value) <= eloMax,
    });
  const before = reader.faults.length;
  const [elo0, elo1] = [bound('elo0'), bound('elo1')];
  if (reader.faults.length === before && elo1 < elo0 + eloGapMin) {
    reader.fault('elo1', `must be at least elo0 + ${eloGapMin}, got ${elo1} with elo0 ${elo0}`);
  }
  const elo_model = reader.text('elo_model', {
    rule: `one of ${models.join(', ')}`,
    holds: (value) => models.includes(value),
    absent: 'normalized',
  }) as EloModel;
  return newSprt({ elo0, elo1, elo_model, batch_size });
}

/** The tuning that the fields ask for. */
export function readSpsa(reader: FieldReader, numGames: number): Spsa | undefined {
  reader.only(['A', 'algorithm', 'alpha', 'gamma', 'raw_params']);
  reader.text('algorithm', {
    rule: 'classic',
    holds: (value) => value === 'classic',
    absent: 'classic',
  });
  const share = (name: string, absent: number) =>
    reader.number(name, {
      rule: 'a number above 0 and up to 1',
      holds: (value) => value > 0 && value <= 1,
      absent,
    });
  const [ratioA, alpha, gamma] = [share('A', 0.1), share('alpha', 0.602), share('gamma', 0.101)];
  const rawParams = reader.text('raw_params', {
    rule: `lines of name,start,min,max,c_end,r_end: from 1 to ${paramsMax}`,
    holds: (value) => value !== '' && value.split('\n').length <= paramsMax,
  });
  if (rawParams === '') return undefined;
  try {
    const spsa = newSpsa({ rawParams, numGames, ratioA, alpha, gamma });
    checkParams(reader, spsa);
    return spsa;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    reader.fault('raw_params', error.message.replace(/^spsa: /, ''));
    return undefined;
  }
}

function checkParams(reader: FieldReader, { params }: Spsa): void {
  const seen = new Set<string>();
  for (const { name, start, min, max } of params) {
    const complain = (message: string) => reader.fault('raw_params', `${name}: ${message}`);
    if (!/^[!-+\--~]{1,100}$/.test(name)) complain('a name must be ASCII without blanks');
    if (seen.has(name)) complain('must be given once');
    if (min > start || start > max) complain('start must be from min to max');
    seen.add(name);
  }
}
