import { BoundedMap, SingleFlight } from 'spillway';
import type { Context } from '../context.ts';
import { officialRepo } from '../operations/submission.ts';
import type { Github } from '../outside/github.ts';
import type { RunArgs } from '../world/records.ts';
import type { Run } from '../world/run.ts';

/** Age of runs, in ms, up to which visitors without an account cause calls to GitHub. */
const recentMs = 30 * 86_400_000;

/** Warnings about the place of a run's base in the history of its engine, as GitHub tells. */
export class Ancestry {
  readonly #context: Context;
  readonly #warnings = new BoundedMap<string, readonly string[]>({ countMax: 6_000 });
  readonly #flights = new SingleFlight<void>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** Warnings as far as they are known. */
  of({ id }: Run): readonly string[] {
    return this.#warnings.get(id) ?? [];
  }

  /** Asks GitHub about a run whose page was opened; open pages show the answer. */
  look(run: Run, isUser: boolean): void {
    const { files, clock, feed } = this.#context;
    const isRecent = clock.now() - run.record.last_updated < recentMs;
    const { remaining, limit } = files.budget;
    // The other half of the rate limit is reserved for new runs.
    if (files.github === undefined || !(isUser || isRecent) || remaining < limit / 2) return;
    const { github } = files;
    const ask = async () => {
      const warnings = await warningsOf(github, run.args);
      const isNew = String(warnings) !== String(this.of(run));
      this.#warnings.set(run.id, warnings);
      if (isNew) feed.touch();
    };
    this.#flights.run(run.id, ask).catch(() => {});
  }
}

async function warningsOf(
  github: Github,
  { tests_repo: repo, master_repo = officialRepo, resolved_base, resolved_new }: RunArgs,
): Promise<string[]> {
  const master = { repo: master_repo, ref: 'master' };
  const base = { repo, ref: resolved_base };
  const branch = { repo, ref: resolved_new };
  const isBase = (sha: string | undefined) => sha === undefined || sha === resolved_base;
  const [inMaster, inBranch, newest] = await Promise.all([
    github.mergeBase(master, base),
    github.mergeBase(base, branch),
    github.mergeBase(master, branch),
  ]);
  const warnings: string[] = [];
  if (!isBase(inMaster)) warnings.push('The base is not in the history of master.');
  if (!isBase(inBranch)) warnings.push('The base is not in the history of the branch.');
  if (warnings.length === 0 && !isBase(newest)) {
    warnings.push('The branch has newer commits of master than its base has.');
  }
  return warnings;
}
