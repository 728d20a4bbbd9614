import type { WorkerInfo } from '../protocol/read-request.ts';
import { taskAction, workerLog } from './actions.ts';
import {
  type AssignedTask,
  type NoTask,
  requestSpsa,
  requestTask,
  type TaskRequest,
} from './hand-out.ts';
import { audit, endDeadTasks, measureSpeed, shareThroughput } from './maintenance.ts';
import {
  addRun,
  blockWorker,
  deleteRun,
  modifyRun,
  purgeByUser,
  type RunModification,
  setApproval,
  stopByUser,
  unblockWorker,
} from './manage-run.ts';
import { Changes, type Decision, restore, type StoredWorld } from './records.ts';
import type { Run, Task } from './run.ts';
import {
  type Alive,
  notActive,
  type StopReply,
  stopByWorker,
  type TaskUpdate,
  updateTask,
} from './update-task.ts';
import { type BlockedWorker, type Named, World, type WorldOptions } from './world.ts';

export type FleetOptions = WorldOptions;

export interface FleetStats {
  readonly unfinishedRuns: number;
  readonly activeTasks: number;
  readonly blockedWorkers: number;
}

/**
 * All runs and workers in memory. Every method decides at once, changes the world, and says which
 * records it changed: store those, then answer. What a worker asks for costs the same however many
 * tasks and workers there are; only the number of unfinished runs counts.
 */
export class Fleet {
  readonly #world: World;

  constructor(options: FleetOptions) {
    this.#world = new World(options);
  }

  get stats(): FleetStats {
    const { unfinished, blocked } = this.#world;
    let activeTasks = 0;
    for (const run of unfinished) activeTasks += run.activeTasks.size;
    return {
      unfinishedRuns: unfinished.size,
      activeTasks,
      blockedWorkers: blocked.size,
    };
  }

  get unfinishedRuns(): ReadonlySet<Run> {
    return this.#world.unfinished;
  }

  /** A run that is in memory: all unfinished ones, and finished ones that were asked for lately. */
  run(id: string): Run | undefined {
    return this.#world.run(id);
  }

  /** The active task of the worker with this short name. */
  taskOf(name: string): Task | undefined {
    return this.#world.activeTask(name);
  }

  /**
   * The task that a request names, if it belongs to who asks; throws `REQUEST_REFUSED`.
   * A finished run that is no longer in memory must be recalled first.
   */
  find(request: Required<Named>): Task;
  find(request: Named): Task | undefined;
  find(request: Named): Task | undefined {
    return this.#world.find(request);
  }

  /** Takes up what was stored, before the first request. */
  restore(stored: StoredWorld): Changes {
    return restore(this.#world, stored);
  }

  /** Brings a stored, finished run back into memory; gives the one that is there, if one is. */
  recall(run: Run): Run {
    const known = this.#world.run(run.id);
    if (known !== undefined) return known;
    this.#world.place(run);
    return run;
  }

  /** Active tasks at an address. */
  connections(address: string): number {
    return this.#world.connections(address);
  }

  /** Whether {@link settle} has something to do. */
  get isUnsettled(): boolean {
    return this.#world.isUnsettled;
  }

  /** Writes down of some tasks that they ended with their run; call it while it is unsettled. */
  settle(): Changes {
    const changes = new Changes();
    this.#world.settle(changes);
    return changes;
  }

  /** A worker that gets no tasks, by its short name. */
  blockedWorker(name: string): Readonly<BlockedWorker> | undefined {
    return this.#world.blocked.get(name);
  }

  get blockedWorkers(): ReadonlyMap<string, Readonly<BlockedWorker>> {
    return this.#world.blocked;
  }

  requestTask(request: TaskRequest): Decision<AssignedTask | NoTask> {
    return requestTask(this.#world, request);
  }

  updateTask(task: Task, update: TaskUpdate): Decision<Alive> {
    return updateTask(this.#world, task, update);
  }

  /** A worker says it is still at work. */
  beat(task: Task): Decision<Alive> {
    const changes = new Changes();
    if (task.active) {
      task.record.last_updated = this.#world.clock.now();
      this.#world.active.touch(task);
      changes.beats.add(task);
    }
    return { reply: { task_alive: task.active }, changes };
  }

  requestSpsa(task: Task): ReturnType<typeof requestSpsa> {
    return requestSpsa(this.#world, task);
  }

  /** A worker gives its task up. */
  failTask(task: Task, message: string): Decision<Alive | object> {
    const changes = new Changes();
    if (!task.active) return { reply: notActive(task), changes };
    changes.actions.push(taskAction('failed_task', task, this.#world.clock.now(), message));
    this.#world.end(task, changes);
    return { reply: {}, changes };
  }

  /** A worker says that the run is broken; `cpuHours` are what its user has given so far. */
  stopByWorker(
    task: Task,
    said: { readonly message: string; readonly cpuHours?: number | undefined },
  ): Decision<StopReply> {
    return stopByWorker(this.#world, task, said);
  }

  /** A worker tells people something. */
  logWorker(info: WorkerInfo, message: string, task?: Task): Changes {
    const changes = new Changes();
    changes.actions.push(workerLog(info, this.#world.clock.now(), message, task));
    return changes;
  }

  addRun(run: Run, message: string): Changes {
    return addRun(this.#world, run, message);
  }

  approve(run: Run, username: string): Changes {
    return setApproval(this.#world, run, username, true);
  }

  unapprove(run: Run, username: string): Changes {
    return setApproval(this.#world, run, username, false);
  }

  stop(run: Run, username: string, message: string): Changes {
    return stopByUser(this.#world, run, username, message);
  }

  delete(run: Run, username: string): Changes {
    return deleteRun(this.#world, run, username);
  }

  /** Throws `REQUEST_REFUSED` if there is nothing to purge. */
  purge(run: Run, username: string): Changes {
    return purgeByUser(this.#world, run, username);
  }

  /** Throws `REQUEST_REFUSED` for what may not be changed. */
  modify(
    run: Run,
    to: RunModification,
    by: { readonly username: string; readonly isApprover: boolean },
  ): Changes {
    return modifyRun(this.#world, run, to, by);
  }

  /** Gives a worker, by its short name, no more tasks. */
  block(name: string, username: string, message: string): Changes {
    return blockWorker(this.#world, name, username, message);
  }

  unblock(name: string, username: string): Changes {
    return unblockWorker(this.#world, name, username);
  }

  /** Ends tasks of workers that fell silent; call again soon if there are more. */
  endDeadTasks(): { readonly changes: Changes; readonly more: boolean } {
    return endDeadTasks(this.#world);
  }

  shareThroughput(): Changes {
    return shareThroughput(this.#world);
  }

  measureSpeed(): Changes {
    return measureSpeed(this.#world);
  }

  audit(): Changes {
    return audit(this.#world);
  }

  forgetIdle(): void {
    this.#world.forgetIdle();
  }
}
