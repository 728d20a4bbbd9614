import { runInNewContext } from 'node:vm';
import { architectures } from '../protocol/patterns.ts';
import { shortName, type WorkerInfo } from '../protocol/read-request.ts';
import { gameDuration, timeControlRatio } from '../statistics/time-control.ts';
import {
  Changes,
  type Decision,
  type RunArgs,
  type Stats,
  type StoredWorkerInfo,
  taskAction,
} from './records.ts';
import type { Run, Task } from './run.ts';
import type { World } from './world.ts';

export interface TaskRequest {
  readonly info: StoredWorkerInfo;
  /** Tasks that the user may have at one address. */
  readonly machineLimit: number;
  /** Address of this server for people, without a slash at the end. */
  readonly baseUrl: string;
}

export interface AssignedTask {
  readonly run: {
    readonly _id: string;
    readonly args: RunArgs;
    readonly my_task: { readonly num_games: number; readonly start: number; readonly stats: Stats };
  };
  readonly task_id: number;
}

/** No task: `error` tells the worker's owner what to mend. */
export interface NoTask {
  readonly task_waiting: false;
  readonly error?: string;
}

/** A worker is refused if another one with its name was active within this time. */
const duplicateMs = 120_000;

/** Gives a worker its next task, or says why not; {@link chooseRun} decides of which run. */
export function requestTask(world: World, request: TaskRequest): Decision<AssignedTask | NoTask> {
  const changes = new Changes();
  const { info } = request;
  const name = shortName(info);
  const error = refusal(world, name, request, changes);
  if (error !== undefined) return { reply: { task_waiting: false, error }, changes };
  const lastRun = world.lastRun(name);
  const run = chooseRun(world.unfinished, { name, info, lastRun });
  if (run === undefined) return { reply: { task_waiting: false }, changes };
  const task = assign(world, run, info, changes);
  const { num_games, start, stats } = task.record;
  const my_task = { num_games, start, stats };
  return { reply: { run: { _id: run.id, args: run.args, my_task }, task_id: task.id }, changes };
}

/** A tuning with one parameter gets no more workers above this number of cores. */
const tuningCores = 200_000;

/** A worker that asks for a task, and the run of its last one. */
export interface Candidate {
  readonly name: string;
  readonly info: WorkerInfo;
  readonly lastRun: Run | undefined;
}

/**
 * The run that needs this worker most, of those it can serve. {@link fits} costs more than
 * {@link comesBefore}, so only a run that would be the best so far is checked.
 */
export function chooseRun(runs: Iterable<Run>, candidate: Candidate): Run | undefined {
  let best: Run | undefined;
  let least: Need | undefined;
  for (const run of runs) {
    const its = need(run, candidate);
    if (least !== undefined && !comesBefore(its, least)) continue;
    if (!fits(run, candidate)) continue;
    best = run;
    least = its;
  }
  return best;
}

interface Need {
  readonly priority: number;
  readonly served: boolean;
  /** Cores per unit of throughput, counting half the cores of this worker. */
  readonly load: number;
}

/** The cores of a worker count twice for its last run, so that workers move between runs. */
function need(run: Run, { info, lastRun }: Candidate): Need {
  const { priority, itp } = run.args;
  const cores = run.record.cores + (run === lastRun ? info.concurrency : 0);
  return { priority, served: cores > 0, load: (cores + info.concurrency / 2) / itp };
}

/** The rule: higher priority first, then a run that nobody plays, then the least load. */
function comesBefore(a: Need, b: Need): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority;
  if (a.served !== b.served) return b.served;
  return a.load < b.load;
}

/** Account of `fleet demo-workers`, whose results are made up. */
export const demoUsername = 'demoworkers';

/** True if a worker may and can play games of this run now. */
export function fits(run: Run, { name, info }: Pick<Candidate, 'name' | 'info'>): boolean {
  const { args, record } = run;
  const { concurrency } = info;
  return (
    !record.finished &&
    record.approved &&
    // Made-up results must not enter the run of anybody else.
    (info.username !== demoUsername || args.username === demoUsername) &&
    args.threads <= concurrency &&
    args.threads >= info.min_threads &&
    run.openGames > 0 &&
    memoryNeed({ hashMiB: run.hashMiB, threads: args.threads }, concurrency) <= info.max_memory &&
    (!info.near_github_api_limit || run.seenBy.has(name)) &&
    (args.spsa === undefined || record.cores <= tuningCores / Math.sqrt(args.spsa.params.length)) &&
    (run.archFilter.accepted?.has(info.worker_arch) ?? true) &&
    (args.compiler === undefined || args.compiler === info.compiler)
  );
}

function refusal(
  world: World,
  name: string,
  { info, machineLimit, baseUrl }: TaskRequest,
  changes: Changes,
): string | undefined {
  const now = world.clock.now();
  const blocked = world.blocked.get(name);
  if (blocked !== undefined) {
    blocked.last_updated = now;
    changes.blocked.add(name);
    return blockedText(name, blocked.message, baseUrl);
  }
  const other = world.activeTask(name)?.record;
  if (other !== undefined && other.worker_info.unique_key !== info.unique_key) {
    const silentMs = now - other.last_updated;
    if (silentMs <= duplicateMs) return duplicateText(name, silentMs);
  }
  if (world.connections(info.remote_addr) >= machineLimit) {
    return `Machine limit reached: ${machineLimit} tasks are active at this address.`;
  }
  return world.emptyTasks.refusal(info, machineLimit, now);
}

function assign(world: World, run: Run, info: StoredWorkerInfo, changes: Changes): Task {
  const now = world.clock.now();
  const stale = world.activeTask(shortName(info));
  const task = run.addTask(nextTaskSize(run, info.concurrency), info, now);
  world.admit(task);
  changes.tasks.add(task);
  changes.runs.add(run);
  if (stale !== undefined) {
    changes.actions.push(taskAction('failed_task', stale, now, 'Stale active task'));
    world.end(stale, changes);
  }
  return task;
}

/** Half an hour of games, or the rest of the run; in a sequential test always whole batches. */
function nextTaskSize(run: Run, concurrency: number): number {
  const { args, batchGames, openGames } = run;
  const isTest = args.sprt !== undefined;
  const left = isTest ? batchGames * Math.ceil(openGames / batchGames) : openGames;
  return Math.min(taskSize(args, concurrency), left);
}

/** Processor architectures that may play a run. */
export interface ArchFilter {
  /** Names of architectures; undefined for all. */
  readonly accepted: ReadonlySet<string> | undefined;
  /** The reason of a failure; architectures that the filter was not tried on are accepted then. */
  readonly problem?: string;
}

const matchMsMax = 100;
const triesMax = 3;
const everyone: readonly string[] = [...architectures, 'unknown'];
const attempt = `
  const filter = new RegExp(expression);
  for (const name of everyone) if (!filter.test(name)) refused.push(name);
`;

/**
 * Tries a regular expression on every architecture once, so that requests only look up the result.
 * A person wrote the expression, so it runs with a time limit.
 */
export function archFilter(expression: string | undefined): ArchFilter {
  if (expression === undefined) return { accepted: undefined };
  let found = tried(expression);
  // On a busy machine the time limit may pass before the filter has had any processor time.
  for (let again = 1; again < triesMax && found.problem !== undefined; again += 1) {
    found = tried(expression);
  }
  return found;
}

function tried(expression: string): ArchFilter {
  const refused: string[] = [];
  const accepted = () => new Set(everyone).difference(new Set(refused));
  try {
    runInNewContext(attempt, { expression, everyone, refused }, { timeout: matchMsMax });
    return { accepted: accepted() };
  } catch (error) {
    const why = String((error as { message?: unknown }).message);
    return { accepted: accepted(), problem: `arch_filter ${expression}: ${why}` };
  }
}

const taskSeconds = 1800;

/** The part of a run that the size of its tasks depends on. */
interface SizedRun extends Pick<RunArgs, 'tc' | 'threads'> {
  /** A sequential test has so many pairs between two updates. */
  readonly sprt?: { readonly batch_size: number } | undefined;
}

/** Games that keep a worker busy for half an hour, in whole batches. */
export function taskSize({ tc, threads, sprt }: SizedRun, concurrency: number): number {
  const games = (taskSeconds / gameDuration(tc)) * Math.floor(concurrency / threads);
  const batch = 2 * (sprt?.batch_size ?? 1);
  return Math.max(batch, batch * Math.floor(games / batch + 0.5));
}

/** Memory that a worker needs to play a run's games, in MiB, with the hash of both engines. */
export function memoryNeed(
  { hashMiB, threads }: { readonly hashMiB: number; readonly threads: number },
  concurrency: number,
): number {
  const games = Math.floor(concurrency / threads);
  return hashMiB * games + 444 + 2 * games * (151 + 31 * threads);
}

/** The number after `Hash=` in an engine's options, in MiB; 0 if there is none. */
export function hashSize(options: string): number {
  return Number(/Hash=(\d+)/.exec(options)?.[1] ?? 0);
}

/** The part of a run that its share of the cores depends on. */
interface SharedRun extends Pick<RunArgs, 'throughput' | 'tc' | 'threads'> {
  readonly sprt?: { readonly llr: number; readonly elo0: number } | undefined;
}

/** A run's share of the cores, relative to others of its priority. */
export function internalThroughput(
  { throughput, tc, threads, sprt }: SharedRun,
  { games, activeRuns }: { readonly games: number; readonly activeRuns: number },
): number {
  const ratio = timeControlRatio(tc, threads);
  const asked = Math.min(Math.max(throughput, 1), 500);
  const forLongGames = ratio > 1 ? ratio ** 0.774 : 1;
  const forManyRuns = 36 / (36 + activeRuns ** 2);
  const nearlyPassed = sprt !== undefined && sprt.llr > 2;
  const forSuccess = nearlyPassed ? (sprt.elo0 > 0 ? 0.2 : 0.1) : 0;
  const bonus = Math.min(games / 200_000, 1) + forSuccess;
  return asked * forLongGames * forManyRuns * (1 + bonus);
}

const columns = 70;

/** The message to the owner of a blocked worker. */
export function blockedText(name: string, message: string, baseUrl: string): string {
  return [
    `Request_task: ${name} is blocked: it gets no tasks.`,
    'The reason given is:',
    '',
    ...wrap(message),
    '',
    'Its events are listed at',
    `${baseUrl}/actions?text="${name}"`,
    'Its owner can unblock it, once the problem is solved, at',
    `${baseUrl}/workers/${name}`,
  ].join('\n');
}

export function duplicateText(name: string, silentMs: number): string {
  const seconds = Math.floor(silentMs / 1000);
  return (
    `There is already a worker ${name} with another unique key, active ${seconds} seconds ago. ` +
    'Give each worker a name of its own.'
  );
}

/** Lines of at most 70 characters, broken between words; a longer word is broken itself. */
export function wrap(message: string): string[] {
  return message.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let line = '';
    for (let word of paragraph.trim().split(/\s+/)) {
      if (line !== '' && line.length + 1 + word.length > columns) {
        lines.push(line);
        line = '';
      }
      for (; word.length > columns; word = word.slice(columns)) lines.push(word.slice(0, columns));
      line = line === '' ? word : `${line} ${word}`;
    }
    return [...lines, line];
  });
}
