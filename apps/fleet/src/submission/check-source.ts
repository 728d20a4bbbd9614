import { FieldReader } from '../field-reader.ts';
import type { Github } from '../outside/github.ts';
import type { Submission } from './read-submission.ts';
import { officialRepo } from './read-submission.ts';

export interface CheckSourceOptions {
  /** Where repositories and benches are looked up. @default nowhere: nothing is checked */
  readonly github?: Pick<Github, 'repository' | 'latestBench'> | undefined;
  /** When the submitter registered, in UNIX milliseconds. */
  readonly registrationTime: number;
  /** Whether newer accounts, too, may test what is no fork of the official engine. */
  readonly foreignRepos: boolean;
}

export interface CheckedSource {
  readonly submission: Submission;
  /** What people should know, though it is no fault. */
  readonly warnings: readonly string[];
}

/** Accounts that are older may test forks of other engines. */
const forksUntil = Date.UTC(2025, 6, 1);

/**
 * Looks at where a submission's branches come from: the repository gets the name it has today, one
 * that is no fork of the official engine is noted, and a base called master must have master's
 * bench. Throws `INPUT_INVALID`. While GitHub cannot be reached, all is believed.
 */
export async function checkSource(
  submission: Submission,
  options: CheckSourceOptions,
): Promise<CheckedSource> {
  const { github, registrationTime, foreignRepos } = options;
  if (github === undefined) return { submission, warnings: [] };
  const { args } = submission;
  const reader = new FieldReader(args);
  const warnings: string[] = [];
  const repository = await told(github.repository(args.tests_repo));
  if (repository === null) {
    reader.fault('tests_repo', `must be a repository, and GitHub has no ${args.tests_repo}`);
  }
  const { url: tests_repo = args.tests_repo, rootUrl = officialRepo } = repository ?? {};
  const isForeign = rootUrl !== officialRepo;
  if (isForeign && !foreignRepos && registrationTime >= forksUntil) {
    const hint = 'accounts since July 2025 need the setting foreignRepos for others';
    reader.fault(
      'tests_repo',
      `must be a fork of ${officialRepo}, and is one of ${rootUrl}; ${hint}`,
    );
  } else if (isForeign)
    warnings.push(`${tests_repo} is a fork of ${rootUrl}, not of ${officialRepo}`);
  if (args.base_tag === 'master') {
    const bench = await told(github.latestBench(rootUrl, 'master'));
    if (bench && bench !== args.base_signature) {
      reader.fault('base_signature', `must be that of master, which is ${bench}`);
    }
  }
  reader.check();
  const { master_repo: _said, ...rest } = args;
  const known = repository ? (isForeign ? { master_repo: rootUrl } : {}) : master(args);
  return { submission: { ...submission, args: { ...rest, tests_repo, ...known } }, warnings };
}

function master({ master_repo }: Submission['args']): { readonly master_repo?: string } {
  return master_repo === undefined ? {} : { master_repo };
}

/** Null for what is not there, undefined for what nobody could tell. */
async function told<T>(answer: Promise<T | undefined>): Promise<T | null | undefined> {
  return answer.then(
    (value) => value ?? null,
    () => undefined,
  );
}
