import { check, checkInteger } from '../base/check.ts';
import { type Ordered, priorityMax } from '../wait/fair-queue.ts';
import { Waiter } from '../wait/wait-queue.ts';
import { PoolSpare } from './spare.ts';
import type { PoolMember } from './worker.ts';

export interface PoolRunOptions {
  /** Leaves the queue, or aborts the task where it runs, when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Buffers inside the input that are moved to the worker instead of copied. */
  readonly transfer?: readonly ArrayBuffer[] | undefined;
  /** From 0 to 7; higher ones are always served first. @default 0 */
  readonly priority?: number | undefined;
  /** Whose work it is (a tenant, a user); keys are served in turn. @default all the same */
  readonly key?: string | undefined;
  /** Tasks of the same affinity go to the same worker, in order. @default any worker */
  readonly affinity?: string | undefined;
}

export function checkPoolRunOptions(options: PoolRunOptions): void {
  const { transfer, priority = 0, key = '', affinity = '' } = options;
  checkInteger('priority', priority, 0, priorityMax);
  check(typeof key === 'string', 'key', 'a string', key);
  check(typeof affinity === 'string', 'affinity', 'a string', affinity);
  const isList = transfer === undefined || Array.isArray(transfer);
  check(isList, 'transfer', 'an array of buffers', transfer);
}

/** Up to this size copying costs less than the wake-up it saves: some 10 us (2026-11). */
const spareBytesMax = 2 ** 18;

/** What is asked of the pool. */
export interface PoolCall {
  readonly name: string;
  readonly input: unknown;
  readonly isStream: boolean;
  /** Takes the chunks of a stream. */
  readonly chunk?: (value: unknown) => void;
}

/** One of the module's handlers, and how long its tasks have taken lately. */
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

/** A task on its way through the pool. */
export class PoolTask extends Waiter<unknown> implements Ordered {
  readonly weight = 1;
  readonly priority: number;
  readonly key: string | undefined;
  readonly arrivedAt: number;
  readonly handler: PoolHandler;
  /** The handler's number as the worker knows it: minus one minus it for a stream. */
  readonly number: number;
  input: unknown;
  transfer: readonly ArrayBuffer[] | undefined;
  /** The seat whose worker alone may run it. */
  readonly seat: number | undefined;
  readonly chunk: ((value: unknown) => void) | undefined;
  member: PoolMember | undefined = undefined;
  ticket: number = -1;
  expectedMs: number = 0;
  /** The caller has been answered already; only the worker still has it. */
  isOver: boolean = false;
  spare: PoolSpare | undefined = undefined;
  /** Goes off when it was told to stop and has not. */
  kill: Disposable | undefined = undefined;
  /** Told when the caller's signal aborts. */
  left: ((task: PoolTask, reason: unknown) => void) | undefined = undefined;
  readonly #signal: AbortSignal | undefined;

  constructor(
    handler: PoolHandler,
    call: PoolCall,
    place: { readonly seat: number | undefined; readonly arrivedAt: number },
    options: PoolRunOptions,
  ) {
    super(options.signal);
    this.#signal = options.signal;
    this.handler = handler;
    this.number = call.isStream ? -1 - handler.number : handler.number;
    this.input = call.input;
    this.chunk = call.chunk;
    this.seat = place.seat;
    this.arrivedAt = place.arrivedAt;
    this.transfer = options.transfer;
    this.priority = options.priority ?? 0;
    this.key = options.key;
  }

  /** Whether it can be given to another worker as long as it has not begun. */
  get isMovable(): boolean {
    return this.transfer === undefined && this.seat === undefined;
  }

  /** Whether it may wait in a busy worker: what is moved there can come back only as a copy. */
  get isPortable(): boolean {
    let bytes = 0;
    for (const buffer of this.transfer ?? []) bytes += buffer.byteLength;
    return bytes <= spareBytesMax;
  }

  /** Keeps a copy of what is about to be moved, so that the task can still go elsewhere. */
  keepSpare(): void {
    if (this.transfer === undefined) return;
    this.spare = new PoolSpare(this.input, this.transfer);
    this.input = this.spare.value;
    this.transfer = undefined;
  }

  /** Whether a worker has begun with it. */
  get hasBegun(): boolean {
    return this.member?.slots.hasBegun(this.ticket) ?? false;
  }

  protected override leave(): void {
    this.left?.(this, this.#signal?.reason);
  }
}
