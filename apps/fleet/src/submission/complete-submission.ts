import type { Github } from '../outside/github.ts';
import { patterns } from '../protocol/patterns.ts';
import { officialRepo } from './read-submission.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Fills in the commit, the bench and the nets of a branch where the commit or the bench was left
 * out and GitHub knows it. What cannot be found stays away, for the one who checks to name.
 */
export async function completeSubmission(
  sent: unknown,
  github: Pick<Github, 'branch'> | undefined,
): Promise<unknown> {
  const isObject = typeof sent === 'object' && sent !== null && !Array.isArray(sent);
  if (github === undefined || !isObject) return sent;
  const fields = sent as Fields;
  const [ours, theirs] = await Promise.all([
    found(fields, 'new', github),
    found(fields, 'base', github),
  ]);
  const { info = ours.msg_new } = fields;
  return { ...theirs, ...ours, ...withoutAbsent(fields), ...(info !== undefined && { info }) };
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
  // Without GitHub a run can be submitted too, by hand: its failure is not the submission's.
  const branch = await github.branch(repo, ref).catch(() => undefined);
  if (branch === undefined) return {};
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
