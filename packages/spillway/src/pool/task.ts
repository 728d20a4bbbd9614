import { check } from '../base/check.ts';
import { anything, instance, integer, oneOf, type Rules } from '../base/options.ts';
import type { RunOptions } from '../base/task.ts';
import type { Ending } from '../meter/meter.ts';
import { type Ordered, priorityMax } from '../wait/fair-queue.ts';
import { Waiter } from '../wait/wait-queue.ts';
import type { Worker } from './worker.ts';

export interface PoolRunOptions extends RunOptions {
  /**
   * With `queued` the signal only cancels a task that has not begun; one that has goes on, and its
   * caller gets the result. @default 'always'
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

const text = instance((value) => typeof value === 'string', 'a string');
const rules: Rules<PoolRunOptions> = {
  signal: anything,
  cancel: oneOf('always', 'queued'),
  transfer: instance(Array.isArray, 'an array of buffers'),
  priority: integer(0, priorityMax),
  key: text,
  affinity: text,
};

/** Checks the options of one task; `settle` would be too slow for each. */
export function checkRunOptions(options: PoolRunOptions): void {
  for (const name in options) {
    check(Object.hasOwn(rules, name), 'options', Object.keys(rules).join(', '), name);
    const { rule, holds } = rules[name as keyof PoolRunOptions];
    const value = options[name as keyof PoolRunOptions];
    if (value !== undefined) check(holds(value), name, rule, value);
  }
}

/** One of the module's handlers, and the time that its tasks have taken lately. */
export class PoolHandler {
  readonly number: number;
  expectedMs: number | undefined = undefined;

  constructor(number: number) {
    this.number = number;
  }

  /** Learns slowly from a long task: it may be a rare one, or its thread had to wait for a core. */
  learn(durationMs: number): void {
    this.expectedMs ??= durationMs;
    const change = durationMs - this.expectedMs;
    this.expectedMs += change < 0 ? change * 0.3 : Math.min(change, this.expectedMs + 0.02) * 0.1;
  }
}

const noBuffers: readonly ArrayBuffer[] = [];

/** A call of a handler. */
export interface PoolCall {
  readonly handler: PoolHandler;
  readonly input: unknown;
  readonly arrivedAt: number;
  /** Takes the chunks of a stream. */
  readonly chunk: ((value: unknown) => void) | undefined;
  /** Called when the caller's signal has aborted. */
  readonly cancel: (task: PoolTask, reason: unknown) => void;
}

/** A task on its way through the pool. */
export class PoolTask extends Waiter<unknown> implements Ordered {
  readonly weight = 1;
  readonly priority: number;
  readonly key: string | undefined;
  readonly arrivedAt: number;
  readonly handler: PoolHandler;
  readonly input: unknown;
  readonly transfer: readonly ArrayBuffer[];
  /** Tasks of one affinity are bound to one worker. */
  readonly affinity: string | undefined;
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
  readonly #cancel: (task: PoolTask, reason: unknown) => void;

  constructor(call: PoolCall, options: PoolRunOptions) {
    super(options.signal);
    this.handler = call.handler;
    this.input = call.input;
    this.chunk = call.chunk;
    this.arrivedAt = call.arrivedAt;
    this.#cancel = call.cancel;
    this.transfer = options.transfer === undefined ? noBuffers : [...options.transfer];
    this.priority = options.priority ?? 0;
    this.key = options.key;
    this.affinity = options.affinity;
    this.cancelsQueued = options.cancel === 'queued';
  }

  /** True when the caller has been answered already. */
  get isOver(): boolean {
    return this.ending !== undefined;
  }

  /** True when another worker can take it over, as long as it has not begun. */
  get isMovable(): boolean {
    return this.transfer.length === 0 && this.affinity === undefined;
  }

  get hasBegun(): boolean {
    return this.worker?.slots.hasBegun(this.ticket) ?? false;
  }

  override giveUp(reason: unknown): void {
    this.#cancel(this, reason);
  }
}
