import { type CloseOptions, type Every, every, type Part, SingleFlight } from 'spillway';
import { nextTurn } from 'spillway/internal';
import type { Context } from '../context.ts';
import type { Run } from '../world/run.ts';
import {
  Contributions,
  type Contributor,
  type ContributorTable,
  ContributorTables,
  countedOf,
} from './contributor-tables.ts';

type ContributorsOptions = Pick<Context, 'storage' | 'primary' | 'onFailure' | 'clock'>;

const periodMs = 3_600_000;
/** The first count waits until workers have come back. */
const firstMs = 60_000;
const monthMs = 30 * 24 * 60 * 60 * 1000;
/** Tasks that are looked at in one turn of the event loop: less than a millisecond's worth. */
const turnMax = 1_000;

/**
 * Totals of what users gave. Each finished run is counted once, in one transaction with the note of
 * what was counted of it; if its games change afterwards, by a purge or a second life, the
 * difference is counted. So a crash loses nothing and counts nothing twice. Each hour the primary
 * looks for new runs.
 */
export class Contributors implements Part {
  readonly name = 'contributors';
  readonly #options: ContributorsOptions;
  readonly #tables: ContributorTables;
  readonly #job: Every;
  #first: Disposable | undefined;
  readonly #counting = new SingleFlight<void>();
  #stopped = false;

  constructor(options: ContributorsOptions) {
    this.#options = options;
    this.#tables = new ContributorTables(options.storage);
    const { clock, onFailure } = options;
    const name = 'count contributors';
    const onError = (error: unknown) => onFailure(name, error);
    const run = () => this.count();
    this.#job = every({ name, periodMs, atStart: true, run, onError, clock });
  }

  start(): void {
    this.#first = this.#options.clock.after(firstMs, () => this.#job.start());
  }

  async close(options?: CloseOptions): Promise<void> {
    this.#stopped = true;
    this.#first?.[Symbol.dispose]();
    await this.#job.close(options);
  }

  /** The most hours first; as old as the last count. */
  list(table: ContributorTable, signal?: AbortSignal): Promise<Contributor[]> {
    return this.#tables.list(table, signal);
  }

  /** Counts what is new, if this is the primary; joins a count that is under way. */
  count(): Promise<void> {
    return this.#counting.run('', () => this.#count());
  }

  async #count(): Promise<void> {
    const { primary } = this.#options;
    const { fence } = primary.stats;
    if (fence === undefined || !primary.isPrimary) return;
    for (let page = await this.#tables.runs(''); page.length > 0; ) {
      for (const run of page) {
        if (this.#stopped) return;
        if (!run.isStale) continue;
        await this.#tables.count(fence, run, await this.#tables.contributionsOf(run.id));
      }
      page = await this.#tables.runs(page.at(-1)?.id as string);
    }
    const month = await this.#finishedMonth();
    const rates = new Map<string, number>();
    for (const run of [...primary.world.unfinished]) await addUnfinished(run, month, rates);
    if (!this.#stopped) await this.#tables.setMonth(fence, month, rates);
  }

  /** Contributions to finished runs of the last 30 days, except to runs that live again. */
  async #finishedMonth(): Promise<Contributions> {
    const { clock, primary } = this.#options;
    const month = new Contributions();
    const since = clock.now() - monthMs;
    for (let page = await this.#tables.countedSince(since, ''); page.length > 0; ) {
      for (const { run_id, counted } of page) {
        if (primary.world.run(run_id)?.record.finished === false) continue;
        for (const [name, one] of countedOf(counted)) month.add(name, one, 1);
      }
      page = await this.#tables.countedSince(since, page.at(-1)?.run_id as string);
    }
    return month;
  }
}

async function addUnfinished(
  run: Run,
  month: Contributions,
  rates: Map<string, number>,
): Promise<void> {
  const { args } = run;
  month.addTest(args.username);
  for (let at = 0; at < run.tasks.length; at += turnMax) {
    if (at > 0) await new Promise<void>(nextTurn);
    for (const task of run.tasks.slice(at, at + turnMax)) {
      month.addTask(args, task.record);
      if (!task.active) continue;
      const { username } = task.record.worker_info;
      rates.set(username, (rates.get(username) ?? 0) + run.gamesPerHourOf(task));
    }
  }
}
