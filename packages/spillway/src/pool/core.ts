import { misuse } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { Meter, type Refusal } from '../meter/meter.ts';
import { assign } from './dispatch.ts';
import type { PoolSettings, PoolStats } from './options.ts';
import { PoolPoll } from './poll.ts';
import { PoolQueue } from './queue.ts';
import { Snapshot } from './snapshot.ts';
import { type PoolCall, PoolHandler, type PoolRunOptions, PoolTask } from './task.ts';
import { PoolWatch } from './watch.ts';
import { type FromWorker, slotOf, unpackError } from './wire.ts';
import type { PoolMember } from './worker.ts';
import { PoolCrew } from './workers.ts';

/** How a pool's tasks find their workers and come back; who the workers are is the crew's part. */
export class PoolCore {
  readonly #options: PoolSettings;
  readonly #clock: Clock;
  readonly #crew: PoolCrew;
  readonly #meter: Meter;
  readonly #snapshot = new Snapshot<unknown>(undefined);
  readonly #queue: PoolQueue;
  readonly #handlers = new Map<string, PoolHandler>();
  /** Tasks that wait or run. */
  #tasks = 0;
  #isDispatchDue = false;
  readonly #watch: PoolWatch;
  readonly #poll: PoolPoll;
  #closing: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(options: PoolSettings) {
    const { clock, random, workers } = options;
    this.#options = options;
    this.#clock = clock;
    this.#meter = new Meter(clock.now());
    this.#queue = new PoolQueue(workers, random() * 2 ** 32);
    this.#watch = new PoolWatch(clock, options.deadlineMs, (now) => this.#expire(now));
    this.#poll = new PoolPoll(clock, () => this.#look());
    const crewOptions = { ...options, snapshot: this.#snapshot };
    this.#crew = new PoolCrew(crewOptions, {
      message: (member, message) => this.#receive(member, message),
      available: () => this.#dispatchSoon(),
      retire: (member) => this.#takeBack(member),
      gone: (member, error) => this.#lose(member, error),
    });
  }

  async start(): Promise<void> {
    await this.#crew.start();
    for (const [number, name] of this.#crew.handlers.entries()) {
      this.#handlers.set(name, new PoolHandler(number));
    }
  }

  get ready(): boolean {
    return this.#closing === undefined && this.#crew.serving.some((member) => member !== undefined);
  }

  get stats(): PoolStats {
    const { workers, concurrency } = this.#options;
    let inside = 0;
    for (const member of this.#crew.members) inside += member.inside;
    return {
      limit: workers * concurrency,
      inside,
      waiting: this.#tasks - inside,
      ...this.#meter.stats(this.#clock.now()),
      workers: this.#crew.stats,
      recycled: this.#crew.recycled,
      lost: this.#crew.lost,
      lastError: this.#crew.lastError,
      snapshot: this.#snapshot.stats,
    };
  }

  submit(call: PoolCall, options: PoolRunOptions): PoolTask {
    const { signal, affinity } = options;
    const handler = this.#handlers.get(call.name);
    if (handler === undefined) {
      const names = [...this.#handlers.keys()].join(', ');
      throw misuse('name', `one of the module's handlers: ${names}`, call.name);
    }
    const { workers, concurrency, queueMax } = this.#options;
    const seat = affinity === undefined ? undefined : this.#queue.seatOf(affinity);
    const task = new PoolTask(handler, call, { seat, arrivedAt: this.#clock.now() }, options);
    task.left = this.#left;
    this.#meter.arrive();
    if (signal?.aborted) {
      this.#meter.refuse('aborted');
      task.refuse(signal.reason);
    } else if (this.#closing !== undefined) {
      this.#refuse(task, 'closed');
    } else {
      this.#queue.push(task);
      this.#tasks += 1;
      if (this.#tasks > workers * concurrency + queueMax) this.#trim(task);
      if (this.#tasks > 0) this.#watch.start(task.arrivedAt);
      this.#dispatchSoon();
    }
    return task;
  }

  /** Takes the task away from wherever it is; one that has begun is told to stop. */
  stop(task: PoolTask, reason: unknown, refusal: Refusal = 'aborted'): void {
    const { member } = task;
    if (task.isOver) return;
    if (member === undefined ? this.#queue.remove(task) : member.takeBack(task)) {
      this.#meter.refuse(refusal);
      this.#finish(task);
    } else if (member !== undefined) {
      task.isOver = true;
      member.abort(task, reason);
      const { killAfterMs } = this.#options;
      task.kill = this.#clock.after(killAfterMs, () => this.#kill(member, task, true));
    }
  }

  publish(value: unknown): number {
    const version = this.#snapshot.stats.version + 1;
    this.#crew.publish(value, version);
    this.#snapshot.publish(value, version);
    for (const member of this.#crew.members) member.hold(this.#snapshot.acquire());
    return version;
  }

  close(withinMs: number): Promise<void> {
    this.#closing ??= this.#close(withinMs);
    return this.#closing;
  }

  async #close(withinMs: number): Promise<void> {
    using limit = deadline(this.#clock, withinMs);
    const over = new Promise<void>((resolve) => {
      limit.signal.addEventListener('abort', () => resolve());
    });
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
    if (this.#tasks > 0) await Promise.race([empty, over]);
    const left = new SpillwayError('POOL_CLOSED', `the pool was closed within ${withinMs} ms`);
    for (const task of this.#all()) this.#answer(task, left, 'closed');
    const ended = this.#crew.close();
    await Promise.race([ended, over]);
    this.#crew.terminate();
    await ended;
  }

  /** One too many waits: the newest of whoever has most waiting is refused. */
  #trim(newcomer: PoolTask): void {
    const task = this.#queue.surplus(newcomer);
    this.#queue.remove(task);
    this.#finish(task);
    this.#refuse(task, 'full');
  }

  #refuse(task: PoolTask, reason: 'closed' | 'full'): void {
    const { workers, concurrency, queueMax } = this.#options;
    this.#meter.refuse(reason);
    const retryAfterMs = this.#meter.retryAfterMs(queueMax, workers * concurrency);
    task.refuse(
      reason === 'closed'
        ? new SpillwayError('POOL_CLOSED', 'the pool is closed')
        : new SpillwayError('POOL_FULL', `${this.#tasks} tasks wait or run`, { retryAfterMs }),
    );
  }

  /** The task is no longer this pool's concern. */
  #finish(task: PoolTask): void {
    task.kill?.[Symbol.dispose]();
    task.spare?.release();
    this.#tasks -= 1;
    if (this.#tasks > 0) return;
    this.#watch[Symbol.dispose]();
    this.#poll[Symbol.dispose]();
    this.#onEmpty?.();
  }

  readonly #left = (task: PoolTask, reason: unknown): void => this.stop(task, reason);

  /** Ends what is past its deadline; gives the arrival of the oldest that is not. */
  #expire(now: number): number {
    let oldestAt = Infinity;
    const message = `not done within ${this.#options.deadlineMs} ms`;
    for (const task of this.#all()) {
      if (!this.#watch.isLate(task.arrivedAt, now)) oldestAt = Math.min(oldestAt, task.arrivedAt);
      else this.#answer(task, new SpillwayError('DEADLINE', message), 'deadline');
    }
    return oldestAt;
  }

  /** Whose callers have no answer yet, wherever they are. */
  #all(): PoolTask[] {
    const sent = [...this.#crew.members].flatMap((member) => [...member.dispatched]);
    return [...this.#queue, ...sent].filter((task) => !task.isOver);
  }

  /** Ends a task before its worker does. */
  #answer(task: PoolTask, error: SpillwayError, refusal: Refusal): void {
    this.stop(task, error, refusal);
    task.refuse(error);
  }

  /** Puts dispatching off to the end of this turn, so that all that is due goes out together. */
  #dispatchSoon(): void {
    if (this.#isDispatchDue) return;
    this.#isDispatchDue = true;
    process.nextTick(this.#dispatch);
  }

  readonly #dispatch = (): void => {
    this.#isDispatchDue = false;
    const { serving } = this.#crew;
    assign(this.#queue, this.#crew);
    for (const member of serving) if (member?.flush(this.#unsendable)) this.#poll.start();
    this.#crew.noticeWear();
  };

  readonly #unsendable = (task: PoolTask, error: unknown): void => {
    this.#meter.refuse('aborted');
    this.#finish(task);
    task.refuse(error);
  };

  /** Takes the results that are in shared memory; false when there were none. */
  #look(): boolean {
    const before = this.#tasks;
    for (const member of this.#crew.members) {
      if (member.dispatched.size > 0) this.#receive(member, undefined);
    }
    return this.#tasks < before;
  }

  #receive(member: PoolMember, message: FromWorker): void {
    const now = this.#clock.now();
    member.slots.drain((slot, result, durationMs) => {
      const task = member.taskAt(slot);
      if (task === undefined) return;
      task.handler.learn(durationMs);
      if (this.#end(member, task, now, durationMs)) task.grant(result);
    });
    if (message === undefined || !('ticket' in message)) return;
    const task = member.taskAt(slotOf(message.ticket));
    if (task?.ticket !== message.ticket) return;
    if (message.type === 'chunk') {
      if (!task.isOver) task.chunk?.(message.value);
      return;
    }
    task.handler.learn(message.durationMs);
    if (!this.#end(member, task, now, message.durationMs)) return;
    if (message.type === 'result') task.grant(message.value);
    else task.refuse(unpackError(message.error));
  }

  /** The worker is done with the task; true when its caller is still to be told. */
  #end(member: PoolMember, task: PoolTask, now: number, serviceMs: number): boolean {
    member.remove(task);
    member.tasks += 1;
    this.#meter.pass(now, { waitMs: Math.max(0, now - task.arrivedAt - serviceMs), serviceMs });
    this.#finish(task);
    this.#crew.settle(member);
    this.#dispatchSoon();
    return !task.isOver;
  }

  /** Takes back what has not begun from a worker that is to leave. */
  #takeBack(member: PoolMember): void {
    const canReturn = (task: PoolTask) => task.transfer === undefined;
    const taken = member.revoke(member.dispatched.size, canReturn);
    for (const task of taken) this.#queue.push(task, true);
    this.#dispatchSoon();
  }

  /** A worker is gone: what it had not begun runs elsewhere, what it had begun is lost. */
  #lose(member: PoolMember, cause: unknown): void {
    this.#receive(member, undefined);
    this.#takeBack(member);
    const message = `the task's worker ended${cause instanceof Error ? `: ${cause.message}` : ''}`;
    for (const task of member.dispatched) {
      const isAwaited = this.#end(member, task, this.#clock.now(), 0);
      if (isAwaited) task.refuse(new SpillwayError('WORKER_LOST', message, { cause }));
    }
  }

  /** Ends the thread of a task that does not stop; its neighbours get as long again to end. */
  #kill(member: PoolMember, task: PoolTask, hasMercy: boolean): void {
    const neighbours = [...member.dispatched].some((other) => !other.isOver && other.hasBegun);
    if (hasMercy && neighbours) {
      this.#crew.retire(member);
      const { killAfterMs } = this.#options;
      task.kill = this.#clock.after(killAfterMs, () => this.#kill(member, task, false));
    } else {
      this.#crew.kill(member);
    }
  }
}
