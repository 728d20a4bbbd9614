import type { Ordered } from './fair-queue.ts';
import type { PoolMember } from './pool-member.ts';
import { Waiter } from './wait-queue.ts';

export interface RunOptions {
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

/** A task on its way through the pool. */
export class PoolTask extends Waiter<unknown> implements Ordered {
  readonly weight = 1;
  readonly priority: number;
  readonly key: string | undefined;
  readonly arrivedAt: number;
  /** The handler's number; minus one minus it for a stream. */
  readonly handler: number;
  readonly input: unknown;
  readonly transfer: readonly ArrayBuffer[] | undefined;
  /** The seat whose worker alone may run it. */
  readonly seat: number | undefined;
  /** Takes the chunks of a stream. */
  readonly chunk: ((value: unknown) => void) | undefined;
  member: PoolMember | undefined = undefined;
  ticket = -1;
  expectedMs = 0;
  /** The caller has been answered already; only the worker still has it. */
  isOver = false;
  /** Goes off when it was told to stop and has not. */
  kill: Disposable | undefined = undefined;
  readonly #left: (task: PoolTask, reason: unknown) => void;
  readonly #signal: AbortSignal | undefined;

  constructor(
    call: {
      readonly handler: number;
      readonly input: unknown;
      readonly arrivedAt: number;
      readonly seat: number | undefined;
      readonly chunk?: ((value: unknown) => void) | undefined;
    },
    options: RunOptions,
    left: (task: PoolTask, reason: unknown) => void,
  ) {
    super(options.signal);
    this.#signal = options.signal;
    this.#left = left;
    this.handler = call.handler;
    this.input = call.input;
    this.arrivedAt = call.arrivedAt;
    this.seat = call.seat;
    this.chunk = call.chunk;
    this.transfer = options.transfer;
    this.priority = options.priority ?? 0;
    this.key = options.key;
  }

  /** Whether it can be given to another worker as long as it has not begun. */
  get isMovable(): boolean {
    return this.transfer === undefined && this.seat === undefined;
  }

  /** Whether a worker has begun with it. */
  get hasBegun(): boolean {
    return this.member?.slots.hasBegun(this.ticket) ?? false;
  }

  protected override leave(): void {
    this.#left(this, this.#signal?.reason);
  }
}
