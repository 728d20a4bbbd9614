import { check, checkInteger } from '../base/check.ts';
import type { RunOptions } from '../base/task.ts';
import type { Ending } from '../meter/meter.ts';
import { type Ordered, priorityMax } from '../wait/fair-queue.ts';
import { Waiter } from '../wait/wait-queue.ts';
import type { Worker } from './worker.ts';

export interface PoolRunOptions extends RunOptions {
  /**
   * The tasks that the signal cancels: with `queued` a task that has begun goes on, and its caller
   * gets the result. @default 'always'
   */
  readonly cancel?: 'always' | 'queued' | undefined;
  /**
   * Buffers inside the input that are moved to the worker instead of copied. The task may wait in a
   * busy worker, and cannot move to another one. @default none
   */
  readonly transfer?: readonly ArrayBuffer[] | undefined;
  /** An integer from 0 to 7; higher ones are always served first. @default 0 */
  readonly priority?: number | undefined;
  /** The tenant or user that the task belongs to; keys are served in turn. @default one for all */
  readonly key?: string | undefined;
  /** Tasks of the same affinity go to the same worker, in order. @default any worker */
  readonly affinity?: string | undefined;
}

const optionNames: Readonly<Record<keyof PoolRunOptions, true>> = {
  signal: true,
  cancel: true,
  transfer: true,
  priority: true,
  key: true,
  affinity: true,
};

export function checkRunOptions(options: PoolRunOptions): void {
  const { cancel = 'always', transfer, priority = 0, key = '', affinity = '' } = options;
  for (const name in options) {
    check(name in optionNames, 'options', Object.keys(optionNames).join(', '), name);
  }
  check(cancel === 'always' || cancel === 'queued', 'cancel', "'always' or 'queued'", cancel);
  checkInteger('priority', priority, 0, priorityMax);
  check(typeof key === 'string', 'key', 'a string', key);
  check(typeof affinity === 'string', 'affinity', 'a string', affinity);
  const isList = transfer === undefined || Array.isArray(transfer);
  check(isList, 'transfer', 'an array of buffers', transfer);
}

/** One of the module's handlers, and the time that its tasks have taken lately. */
export class PoolHandler {
  readonly number: number;
  expectedMs: number | undefined = undefined;

  constructor(number: number) {
    this.number = number;
  }

  /** Follows the usual task: one that took long, or whose thread had to wait, says little. */
  learn(durationMs: number): void {
    this.expectedMs ??= durationMs;
    const change = durationMs - this.expectedMs;
    this.expectedMs += change < 0 ? change * 0.3 : Math.min(change, this.expectedMs + 0.02) * 0.1;
  }
}

/** The part of a pool that tasks know. */
export interface TaskOwner {
  /** The task's signal has aborted. */
  cancel(task: PoolTask, reason: unknown): void;
}

/** A task on its way through the pool. */
export class PoolTask extends Waiter<unknown> implements Ordered {
  readonly weight = 1;
  readonly priority: number;
  readonly key: string | undefined;
  readonly arrivedAt: number;
  readonly handler: PoolHandler;
  readonly input: unknown;
  readonly transfer: readonly ArrayBuffer[] | undefined;
  /** The index of the worker that alone may run it. */
  readonly index: number | undefined;
  readonly isStream: boolean;
  /** Takes the chunks of a stream. */
  readonly chunk: ((value: unknown) => void) | undefined;
  /** The signal counts only until the task has begun. */
  readonly cancelsQueued: boolean;
  worker: Worker | undefined = undefined;
  ticket: number = -1;
  expectedMs: number = 0;
  /** Set when the caller has been answered already, and only the worker still has it. */
  ending: Ending | undefined = undefined;
  /** Ends the worker if the task was told to stop and does not. */
  kill: Disposable | undefined = undefined;
  readonly #owner: TaskOwner;

  constructor(
    owner: TaskOwner,
    call: {
      readonly handler: PoolHandler;
      readonly input: unknown;
      readonly index: number | undefined;
      readonly arrivedAt: number;
      readonly chunk: ((value: unknown) => void) | undefined;
    },
    options: PoolRunOptions,
  ) {
    super(options.signal);
    this.#owner = owner;
    this.handler = call.handler;
    this.input = call.input;
    this.chunk = call.chunk;
    this.isStream = call.chunk !== undefined;
    this.index = call.index;
    this.arrivedAt = call.arrivedAt;
    const { transfer } = options;
    this.transfer = transfer === undefined || transfer.length === 0 ? undefined : [...transfer];
    this.priority = options.priority ?? 0;
    this.key = options.key;
    this.cancelsQueued = options.cancel === 'queued';
  }

  /** True when the caller has been answered already. */
  get isOver(): boolean {
    return this.ending !== undefined;
  }

  /** True when another worker can take it over, as long as it has not begun. */
  get isMovable(): boolean {
    return this.transfer === undefined && this.index === undefined;
  }

  /** True when a worker has begun it. */
  get hasBegun(): boolean {
    return this.worker?.slots.hasBegun(this.ticket) ?? false;
  }

  override giveUp(reason: unknown): void {
    this.#owner.cancel(this, reason);
  }
}
