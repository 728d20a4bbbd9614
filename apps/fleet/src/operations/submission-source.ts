import type { Github } from '../outside/github.ts';
import { isRecord, patterns } from '../protocol/patterns.ts';
import { brackets } from '../statistics/run-statistics.ts';
import { ltcFrom } from '../statistics/time-control.ts';
import type { RunArgs } from '../world/records.ts';
import { hashSize } from '../world/request-task.ts';
import { demandFaultless, type FieldFault, InputError } from './fields.ts';
import { officialRepo, type Submission } from './submission.ts';

export interface CheckSourceOptions {
  /** Looks up repositories and benches. @default none: nothing is checked */
  readonly github?: Pick<Github, 'repository' | 'latestBench'> | undefined;
  /** Time at which the submitter registered, in UNIX milliseconds. */
  readonly registrationTime: number;
  /** True if newer accounts, too, may test engines that are no fork of the official one. */
  readonly foreignRepos: boolean;
}

/** Accounts that are older may test forks of other engines. */
const forksUntil = Date.UTC(2025, 6, 1);

/**
 * Checks where the branches of a submission come from: the repository gets its present name, one
 * that is no fork of the official engine is noted, and a base called master must have the bench of
 * master. Throws `INPUT_INVALID`. Nothing is checked while GitHub cannot be reached.
 */
export async function checkSource(submission: Submission, options: CheckSourceOptions) {
  const { github, registrationTime, foreignRepos } = options;
  const warnings: string[] = [];
  if (github === undefined) return { submission, warnings };
  const { args } = submission;
  const faults: FieldFault[] = [];
  const fault = (field: string, message: string) => faults.push({ field, message });
  const repository = await told(github.repository(args.tests_repo));
  if (repository === null) {
    fault('tests_repo', `must be a repository, and GitHub has no ${args.tests_repo}`);
  }
  const { url: tests_repo = args.tests_repo, rootUrl = officialRepo } = repository ?? {};
  const isForeign = rootUrl !== officialRepo;
  if (isForeign && !foreignRepos && registrationTime >= forksUntil) {
    const hint = 'accounts since July 2025 need the setting foreignRepos for others';
    fault('tests_repo', `must be a fork of ${officialRepo}, and is one of ${rootUrl}; ${hint}`);
  } else if (isForeign)
    warnings.push(`${tests_repo} is a fork of ${rootUrl}, not of ${officialRepo}`);
  if (args.base_tag === 'master') {
    const bench = await told(github.latestBench(rootUrl, 'master'));
    if (bench && bench !== args.base_signature) {
      fault('base_signature', `must be that of master, which is ${bench}`);
    }
  }
  demandFaultless(faults);
  const { master_repo: said, ...rest } = args;
  const master_repo = repository ? (isForeign ? rootUrl : undefined) : said;
  const known = { ...rest, tests_repo, ...(master_repo !== undefined && { master_repo }) };
  return { submission: { ...submission, args: known }, warnings };
}

/** Null if GitHub does not have it, undefined if GitHub could not be asked. */
async function told<T>(answer: Promise<T | undefined>): Promise<T | null | undefined> {
  return answer.then(
    (value) => value ?? null,
    () => undefined,
  );
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Adds commit, bench and nets of a branch from GitHub where the commit or the bench was left out.
 * Values that cannot be found stay absent, which `readSubmission` reports.
 */
export async function completeSubmission(
  sent: unknown,
  github: Pick<Github, 'branch'> | undefined,
): Promise<unknown> {
  if (github === undefined || !isRecord(sent)) return sent;
  const [ours, theirs] = await Promise.all([
    found(sent, 'new', github),
    found(sent, 'base', github),
  ]);
  const { info = ours.msg_new } = sent;
  return { ...theirs, ...ours, ...withoutAbsent({ ...sent, info }) };
}

async function found(
  fields: Fields,
  side: 'new' | 'base',
  github: Pick<Github, 'branch'>,
): Promise<Fields> {
  const { tests_repo: repo = officialRepo, [`${side}_tag`]: tag } = fields;
  const { [`resolved_${side}`]: sha, [`${side}_signature`]: bench } = fields;
  if (sha !== undefined && bench !== undefined) return {};
  const ref = sha ?? tag;
  if (typeof ref !== 'string' || ref === '' || ref.length > 200) return {};
  if (typeof repo !== 'string' || !patterns.githubRepo.test(repo)) return {};
  // If GitHub fails, the run can still be submitted with all values given by hand.
  const branch = await github.branch(repo, ref).catch(() => null);
  if (branch === null) return {};
  if (branch === undefined) {
    const field = sha === undefined ? `${side}_tag` : `resolved_${side}`;
    const message = `must be a branch of ${repo}, and GitHub has none called ${ref}`;
    throw new InputError([{ field, message }]);
  }
  return withoutAbsent({
    [`resolved_${side}`]: branch.sha,
    [`${side}_signature`]: branch.signature,
    [`${side}_nets`]: branch.nets,
    [`msg_${side}`]: branch.info.slice(0, 1_000),
  });
}

function withoutAbsent(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

type Preset = Partial<Pick<RunArgs, 'tc' | 'threads' | 'throughput' | 'num_games'>> & {
  readonly new_options: string;
  readonly base_options: string;
  readonly sprt?: { readonly elo0: number; readonly elo1: number };
};

/** Name in capital letters, time, threads, hash in MiB, throughput, and bounds or games. */
const kinds = [
  ['STC', '10+0.1', 1, 16, 100, [0, 2]],
  ['LTC', '60+0.6', 1, 64, 100, [0.5, 2.5]],
  ['STC-SMP', '5+0.05', 8, 64, 100, [0, 2]],
  ['LTC-SMP', '20+0.2', 8, 256, 100, [0.5, 2.5]],
  ['VLTC', '180+1.8', 1, 192, 50, [0, 2]],
  ['VLTC-SMP', '60+0.6', 8, 512, 50, [0.5, 2.5]],
  ['PT', '60+0.6', 1, 64, 100, 60_000],
  ['PT-SMP', '60+0.6', 8, 512, 100, 60_000],
] as const;

/** The usual kinds of test, by their name. */
export const presets: ReadonlyMap<string, Preset> = new Map(
  kinds.map(([name, tc, threads, hash, throughput, end]): [string, Preset] => {
    const options = `Hash=${hash}`;
    const common = { tc, threads, throughput, new_options: options, base_options: options };
    if (typeof end === 'number') return [name, { ...common, num_games: end }];
    return [name, { ...common, sprt: { elo0: end[0], elo1: end[1] } }];
  }),
);

/** Describes a new run in the event log: `SPRT<0.00,2.00> TC:10+0.1 Book:b.epd Threads:1 …` */
export function submissionText(args: RunArgs): string {
  const { tc, new_tc, book, threads, base_options, new_options } = args;
  const isLong = Number.parseFloat(tc) >= ltcFrom;
  const odds = new_tc === tc ? '' : `[${new_tc}]`;
  return [
    stopRule(args),
    `TC:${tc}${odds}${isLong ? '(LTC)' : ''}`,
    `Book:${book}`,
    `Threads:${threads}${threads > 1 ? '(SMP)' : ''}`,
    `Hash:${hashSize(base_options)}/${hashSize(new_options)}`,
  ].join(' ');
}

function stopRule({ sprt, spsa, num_games }: RunArgs): string {
  if (spsa !== undefined) return `SPSA[${num_games}]`;
  if (sprt === undefined) return `NumGames[${num_games}]`;
  const [open, close] = brackets[sprt.elo_model ?? 'BayesElo'];
  return `SPRT${open}${sprt.elo0.toFixed(2)},${sprt.elo1.toFixed(2)}${close}`;
}
