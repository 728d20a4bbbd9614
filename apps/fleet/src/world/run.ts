import { createHash } from 'node:crypto';
import { shortName } from '../protocol/read-request.ts';
import { eloEstimate } from '../statistics/elo.ts';
import { fixedGamesState } from '../statistics/run-statistics.ts';
import { sprtElo } from '../statistics/sprt.ts';
import { gameDuration, remainingHours } from '../statistics/time-control.ts';
import type {
  BadTaskRecord,
  RunArgs,
  RunRecord,
  Stats,
  StoredWorkerInfo,
  TaskRecord,
} from './records.ts';
import { type ArchFilter, archFilter, hashSize } from './request-task.ts';
import { addDifference, gamesOf, WorkerTotals, zeroStats } from './world.ts';

/** Nodes per second of the reference machine for time controls. */
const referenceNps = 628_000;

export type RunStatus = 'failed' | 'finished' | 'active' | 'waiting' | 'pending';

/** One test with its tasks and their sums; it does not know other runs. */
export class Run {
  readonly record: RunRecord;
  /** Name in the log. */
  readonly name: string;
  readonly tasks: Task[] = [];
  readonly badTasks: BadTaskRecord[];
  /** Short names of workers that had a task of this run. */
  readonly seenBy: Set<string> = new Set();
  /** Number of times it has ended; what was noted before the last end is out of date. */
  life = 0;
  readonly totals: WorkerTotals = new WorkerTotals();
  readonly archFilter: ArchFilter;
  /** Hash memory of both engines together, in MiB. */
  readonly hashMiB: number;
  /** Time at which a finished run was last asked for, in UNIX milliseconds. */
  usedAt = 0;
  readonly #gameSeconds: number;
  #activeTasks = new Set<Task>();
  /** Active tasks by address. */
  #connections = new Map<string, number>();
  /** Sums over active tasks: nodes per second, and the same in games played at once. */
  #nps = 0;
  #gameNps = 0;

  constructor(
    record: RunRecord,
    tasks: readonly TaskRecord[] = [],
    badTasks: readonly BadTaskRecord[] = [],
  ) {
    this.record = record;
    this.name = runName(record._id, record.args.new_tag);
    this.badTasks = [...badTasks];
    this.archFilter = archFilter(record.args.arch_filter);
    this.hashMiB = hashSize(record.args.new_options) + hashSize(record.args.base_options);
    this.#gameSeconds = gameDuration(record.args.tc);
    this.adopt(tasks);
  }

  /** Adds the next stored tasks; a large run is read in pages. */
  adopt(tasks: readonly TaskRecord[]): void {
    for (const one of tasks) {
      const task = this.#append(one);
      // A crash may have left tasks of an ended run active in the database.
      if (this.record.finished) one.active = false;
      if (one.active) this.#activate(task);
    }
  }

  get activeTasks(): ReadonlySet<Task> {
    return this.#activeTasks;
  }

  /** Number of its active tasks at this address. */
  connections(address: string): number {
    return this.#connections.get(address) ?? 0;
  }

  get id(): string {
    return this.record._id;
  }

  get args(): RunArgs {
    return this.record.args;
  }

  get games(): number {
    return gamesOf(this.record.results);
  }

  /** Games that were neither played nor given to a worker. */
  get openGames(): number {
    return this.args.num_games - this.record.committed_games;
  }

  /** Games per update of a worker in a sequential test; 2 in other runs. */
  get batchGames(): number {
    return 2 * (this.args.sprt?.batch_size ?? 1);
  }

  /** True if the results are enough for a decision. */
  get decided(): boolean {
    const state = this.args.sprt?.state ?? '';
    return state !== '' || this.games >= this.args.num_games;
  }

  get status(): RunStatus {
    return statusOf(this.record);
  }

  get nps(): number {
    return this.#nps;
  }

  get gamesPerMinute(): number {
    return ((this.#gameNps / referenceNps) * 60) / this.#gameSeconds;
  }

  /** Games of this run that a task's worker plays in an hour. */
  gamesPerHourOf({ record }: Task): number {
    const { nps, concurrency } = record.worker_info;
    const atOnce = Math.floor(concurrency / this.args.threads);
    return (((nps * atOnce) / referenceNps) * 3600) / this.#gameSeconds;
  }

  /** Gives the next games to a worker; each task starts where the last one's openings end. */
  addTask(numGames: number, info: StoredWorkerInfo, now: number): Task {
    const { record } = this;
    const task = this.#append({
      num_games: numGames,
      active: true,
      last_updated: now,
      start: record.total_games,
      stats: zeroStats(),
      worker_info: info,
    });
    this.#activate(task);
    record.workers += 1;
    record.cores += info.concurrency;
    record.committed_games += numGames;
    record.total_games += numGames;
    return task;
  }

  /** Ends an active task; its remaining games can be given to other workers. */
  endTask(task: Task, now: number): void {
    const { record } = this;
    const { concurrency, remote_addr } = task.record.worker_info;
    this.#activeTasks.delete(task);
    const left = this.connections(remote_addr) - 1;
    if (left > 0) this.#connections.set(remote_addr, left);
    else this.#connections.delete(remote_addr);
    this.#countSpeed(task.record.worker_info, -1);
    record.workers -= 1;
    record.cores -= concurrency;
    record.committed_games += task.games - task.record.num_games;
    task.close(now);
  }

  /** Ends all active tasks in constant time; the caller must close those that it gives. */
  endAllTasks(): Set<Task> {
    const { record } = this;
    const ended = this.#activeTasks;
    this.#activeTasks = new Set();
    this.#connections = new Map();
    this.#nps = 0;
    this.#gameNps = 0;
    record.workers = 0;
    record.cores = 0;
    record.committed_games = this.games;
    this.life += 1;
    return ended;
  }

  /** Sets the totals of a task and the present description of its worker. */
  setStats(task: Task, stats: Stats, info: StoredWorkerInfo): void {
    addDifference(this.record.results, stats, task.record.stats);
    this.totals.replace(task, stats);
    task.record.stats = stats;
    this.#countSpeed(task.record.worker_info, -1);
    this.#countSpeed(info, 1);
    this.record.cores += info.concurrency - task.record.worker_info.concurrency;
    task.record.worker_info = info;
  }

  /** Sets the results of an ended task aside; its games can be played again. */
  purgeTask(task: Task, { residual, residual_color }: BadTaskMark): BadTaskRecord {
    const bad: BadTaskRecord = {
      ...task.record,
      task_id: task.id,
      bad: true,
      residual,
      residual_color,
    };
    this.badTasks.push(bad);
    this.record.committed_games -= task.games;
    addDifference(this.record.results, zeroStats(), task.record.stats);
    this.totals.replace(task, zeroStats());
    task.record.stats = zeroStats();
    task.record.bad = true;
    return bad;
  }

  /** Sets the colours that show how it ended. */
  setColours(): void {
    Object.assign(this.record, colours(this.record));
  }

  #activate(task: Task): void {
    const { worker_info } = task.record;
    this.#activeTasks.add(task);
    const address = worker_info.remote_addr;
    this.#connections.set(address, this.connections(address) + 1);
    this.#countSpeed(worker_info, 1);
  }

  #append(record: TaskRecord): Task {
    const task = new Task(this, this.tasks.length, record);
    this.tasks.push(task);
    this.seenBy.add(task.name);
    this.totals.append(task);
    return task;
  }

  #countSpeed({ nps, concurrency }: StoredWorkerInfo, sign: 1 | -1): void {
    this.#nps += sign * nps * concurrency;
    this.#gameNps += sign * nps * Math.floor(concurrency / this.args.threads);
    // Rounding errors would otherwise stay in the sums of an idle run.
    if (this.activeTasks.size > 0) return;
    this.#nps = 0;
    this.#gameNps = 0;
  }
}

export type BadTaskMark = Pick<BadTaskRecord, 'residual' | 'residual_color'>;

/** A share of a run's games that was given to one worker. */
export class Task {
  readonly run: Run;
  readonly id: number;
  readonly record: TaskRecord;
  /** The worker's short name when it got the task. */
  readonly name: string;

  constructor(run: Run, id: number, record: TaskRecord) {
    this.run = run;
    this.id = id;
    this.record = record;
    this.name = shortName(record.worker_info);
  }

  /** True while its run counts it as active; its record may be updated a little later. */
  get active(): boolean {
    return this.run.activeTasks.has(this);
  }

  /** Marks its record as ended. */
  close(now: number): void {
    this.record.last_updated = now;
    delete this.record.spsa_params;
    this.record.active = false;
  }

  /** Games played. */
  get games(): number {
    return gamesOf(this.record.stats);
  }
}

export function statusOf({ finished, failed, workers, approved }: RunRecord): RunStatus {
  if (finished) return failed ? 'failed' : 'finished';
  if (workers > 0) return 'active';
  return approved ? 'waiting' : 'pending';
}

/** `Result:accepted Elo:1.23[0.12,2.34] LOS:98% Games:40000 Ptnml:[1,2,3,4,5]` */
export function finishedText(run: Run): string {
  const { results, is_green } = run.record;
  const { sprt, spsa } = run.args;
  if (spsa !== undefined) return 'SPSA tune finished';
  const state = sprt === undefined ? (is_green ? 'accepted' : 'rejected') : sprt.state;
  const { elo, low, high, los } = strengthOf(run);
  return (
    `Result:${state} Elo:${elo.toFixed(2)}[${low.toFixed(2)},${high.toFixed(2)}] ` +
    `LOS:${(100 * los).toFixed(0)}% Games:${run.games} Ptnml:[${results.pentanomial.join(',')}]`
  );
}

/** Strength of the change with its 95 % interval, and the chance that it is positive. */
export function strengthOf(run: Run) {
  const { results } = run.record;
  const { sprt } = run.args;
  if (sprt === undefined) {
    const { elo, error95, los } = eloEstimate(results.pentanomial);
    return { elo, low: elo - error95, high: elo + error95, los };
  }
  const { elo0, elo1, alpha, beta, elo_model: model = 'BayesElo' } = sprt;
  const { elo, ci, LOS } = sprtElo(results, { elo0, elo1, alpha, beta, model });
  return { elo, low: ci[0], high: ci[1], los: LOS };
}

/** Outcome of a run: green passed, yellow failed although it won more games than it lost. */
export function colours({
  finished,
  results,
  args: { sprt, spsa },
}: Pick<RunRecord, 'finished' | 'results' | 'args'>) {
  if (!finished || spsa !== undefined) return { is_green: false, is_yellow: false };
  const state = sprt === undefined ? fixedGamesState(results) : sprt.state;
  const is_yellow = state === 'rejected' && results.wins > results.losses;
  return { is_green: state === 'accepted', is_yellow };
}

/** Name of a run in the log: the start of its branch, and a piece of its id's digest. */
export function runName(id: string, newTag: string): string {
  const digest = createHash('md5').update(id).digest('hex');
  return `${newTag.slice(0, 23)}-${digest.slice(0, 7)}`;
}

/** Orders active runs for people: those nearest to a decision first. */
export function byProgress(a: Run, b: Run): number {
  const keys = ({ args, games }: Run) => [
    Number(args.sprt !== undefined),
    args.sprt?.llr ?? 0,
    Number(args.spsa === undefined),
    games,
  ];
  return compare(keys(b), keys(a));
}

/** Orders runs that wait for an approval or a worker. */
export function byUrgency(a: Run, b: Run): number {
  const keys = ({ args }: Run) => [args.priority, args.itp];
  return compare(keys(a), keys(b));
}

/** Hours until these runs are over with their present cores; infinite without cores. */
export function hoursLeft(runs: Iterable<Run>): number {
  let hours = 0;
  let cores = 0;
  for (const { args, games, record } of runs) {
    hours += remainingHours(args, games);
    cores += record.cores;
  }
  return hours === 0 ? 0 : hours / cores;
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index]);
  return at < 0 ? 0 : (a[at] as number) - (b[at] as number);
}
