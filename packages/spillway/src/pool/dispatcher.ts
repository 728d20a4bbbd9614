// Not the global: fake timers take its place.
import { nextTick } from 'node:process';
import { onceAborted } from '../base/abort.ts';
import { misuse } from '../base/check.ts';
import { SpillwayError } from '../base/errors.ts';
import { tellRefusal } from '../base/tell.ts';
import { type Ending, Meter, type MeterStats, type Refusal } from '../meter/meter.ts';
import { Deadlines } from '../wait/deadlines.ts';
import { leastBusy, steal } from './balance.ts';
import type { TaskMessage } from './messages.ts';
import type { PoolSettings } from './options.ts';
import { TaskQueue } from './queue.ts';
import { ResultTimer } from './results.ts';
import { checkRunOptions, PoolHandler, type PoolRunOptions, PoolTask } from './task.ts';
import { unpackError } from './wire-error.ts';
import type { Worker, WorkerEvents } from './worker.ts';
import type { Workers } from './workers.ts';

/** The tasks of a pool: they wait here, go to workers, and come back. */
export class Dispatcher implements WorkerEvents {
  readonly #pool: object;
  readonly #settings: PoolSettings;
  readonly #workers: Workers;
  readonly #meter: Meter;
  readonly #queue: TaskQueue;
  readonly #handlers = new Map<string, PoolHandler>();
  readonly #resultTimer: ResultTimer;
  readonly #deadlines: Deadlines;
  /** Tasks that wait or run. */
  #tasks = 0;
  #isDispatchDue = false;
  #isClosing = false;
  #isPaused = false;
  /** Bound tasks that workers had at the last resize: newer ones of their affinity wait. */
  #boundBefore: readonly PoolTask[] = [];
  #onEmpty: (() => void) | undefined;

  /** `pool` is the part that messages on diagnostics channels name. */
  constructor(pool: object, settings: PoolSettings, workers: Workers) {
    this.#pool = pool;
    const { clock, random } = settings;
    this.#settings = settings;
    this.#workers = workers;
    this.#meter = new Meter(clock.now());
    this.#queue = new TaskQueue(settings.workers, random() * 2 ** 32);
    this.#resultTimer = new ResultTimer(clock, () => this.#readUnannounced());
    this.#deadlines = new Deadlines(clock, (now) => this.#expire(now));
  }

  get ready(): boolean {
    const { serving } = this.#workers;
    return !this.#isClosing && serving.some((worker) => worker !== undefined && !worker.isStuck);
  }

  /** Tasks that can run at once. */
  get #limit(): number {
    return this.#workers.serving.length * this.#settings.concurrency;
  }

  get stats(): MeterStats & { limit: number; inside: number; waiting: number } {
    let inside = 0;
    for (const worker of this.#workers.all) inside += worker.inside;
    return {
      limit: this.#limit,
      inside,
      waiting: this.#tasks - inside,
      ...this.#meter.stats(this.#settings.clock.now()),
    };
  }

  /** Takes a task, with `chunk` a streaming one. Throws if an argument is wrong. */
  submit(
    name: string,
    input: unknown,
    options: PoolRunOptions,
    chunk?: (value: unknown) => void,
  ): PoolTask {
    checkRunOptions(options);
    const { signal } = options;
    const handler = this.#handlers.get(name);
    if (handler === undefined) {
      const names = [...this.#handlers.keys()].join(', ');
      throw misuse('name', `one of the module's handlers: ${names}`, name);
    }
    const arrivedAt = this.#settings.clock.now();
    const call = { handler, input, arrivedAt, chunk, cancel: this.#cancel };
    const task = new PoolTask(call, options);
    this.#meter.arrive();
    if (signal?.aborted) {
      this.#meter.refuse('aborted');
      task.refuse(signal.reason);
    } else if (this.#isClosing) {
      this.#refuse(task, 'closed');
    } else {
      this.#queue.push(task);
      this.#tasks += 1;
      if (this.#tasks === 1) this.#setRef(true);
      if (this.#tasks > this.#limit + this.#settings.queueMax) this.#trim(task);
      this.#deadlines.watch(task.arrivedAt + this.#settings.deadlineMs);
      this.#dispatchSoon();
    }
    return task;
  }

  readonly #cancel = (task: PoolTask, reason: unknown): void => {
    const goesOn = task.cancelsQueued && !this.#withdraw(task, 'aborted');
    if (goesOn) task.ignoreSignal();
    else this.end(task, reason);
  };

  /** Ends a task early, and tells its caller why. */
  end(task: PoolTask, error: unknown, refusal: Refusal = 'aborted'): void {
    if (!this.#withdraw(task, refusal)) {
      this.#stop(task, error, refusal === 'deadline' ? 'late' : 'aborted');
    }
    task.refuse(error);
  }

  /** Begins no more tasks until `resume`, or `drain`. */
  pause(): void {
    if (this.#isClosing) return;
    this.#isPaused = true;
    for (const worker of this.#workers.serving) if (worker !== undefined) this.#takeBack(worker);
  }

  resume(): void {
    this.#isPaused = false;
    this.#dispatchSoon();
  }

  /** Changes the number of workers; bound tasks that wait here go to their new ones. */
  resize(workers: number): void {
    this.#queue.resize(workers);
    const sent = [...this.#workers.all].flatMap((worker) => [...worker.tasks]);
    this.#boundBefore = sent.filter(({ affinity }) => affinity !== undefined);
    this.#workers.resize(workers);
    this.#dispatchSoon();
  }

  /** Refuses the tasks that have not begun. */
  clear(): void {
    const error = new SpillwayError('CLEARED', 'the queue of the pool was cleared');
    for (const task of this.#unanswered()) {
      if (this.#withdraw(task, 'cleared')) task.refuse(error);
    }
  }

  /** Takes no more tasks; refuses those that are left at the limit. */
  async drain(limit: AbortSignal): Promise<void> {
    this.#isClosing = true;
    this.resume();
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
      if (this.#tasks === 0) resolve();
    });
    await Promise.race([empty, onceAborted(limit)]);
    const closed = new SpillwayError('POOL_CLOSED', 'the pool was closed before the task was done');
    for (const task of this.#unanswered()) this.end(task, closed, 'closed');
    this.#deadlines.clear();
  }

  readonly message = (worker: Worker, message: TaskMessage): void => {
    const now = this.#settings.clock.now();
    const grant = (task: PoolTask, result: unknown, durationMs: number) => {
      task.handler.learn(durationMs);
      if (this.#done(task, 'ok', now, durationMs)) task.grant(result);
    };
    worker.readResults(grant);
    if (message === undefined) return;
    const isResult = !('type' in message);
    const task = worker.taskOf(isResult ? message[0] : message.ticket);
    if (task === undefined) return;
    if (isResult) grant(task, message[2], message[1]);
    else if (message.type === 'thrown') {
      const { durationMs, error } = message;
      task.handler.learn(durationMs);
      const isAwaited = this.#done(task, 'failed', now, durationMs);
      if (isAwaited) task.refuse(unpackError(error));
    } else if (!task.isOver) task.chunk?.(message.value);
  };

  changed(worker: Worker): void {
    for (const [number, name] of worker.handlers.entries()) {
      if (!this.#handlers.has(name)) this.#handlers.set(name, new PoolHandler(number));
    }
    if (worker.state === 'gone') this.message(worker, undefined);
    if (worker.state !== 'ready') this.#takeBack(worker);
    if (worker.state === 'gone') this.#lose(worker);
    this.#dispatchSoon();
  }

  /** Puts the tasks that a worker has not begun back into the queue. */
  #takeBack(worker: Worker): void {
    let runsBound = false;
    const taken = worker.takeBackMany(worker.tasks.size, ({ transfer, affinity }) => {
      // Moved buffers cannot come back, so such a task stays with its worker, and is lost if that
      // crashes. It must not overtake older tasks of its affinity, so these stay with it.
      if (transfer.length === 0) return affinity === undefined || !runsBound;
      runsBound ||= affinity !== undefined && worker.state !== 'gone';
      return false;
    });
    for (const task of taken) this.#queue.putBack(task);
  }

  /** Refuses the newest task of the key that has most waiting. */
  #trim(newcomer: PoolTask): void {
    const task = this.#queue.surplus(newcomer);
    this.#queue.remove(task);
    this.#finish(task);
    this.#refuse(task, 'full');
  }

  #refuse(task: PoolTask, reason: 'closed' | 'full'): void {
    this.#meter.refuse(reason);
    const retryAfterMs = this.#meter.retryAfterMs(this.#settings.queueMax, this.#limit);
    const error =
      reason === 'closed'
        ? new SpillwayError('POOL_CLOSED', 'the pool is closed')
        : new SpillwayError('POOL_FULL', `${this.#tasks} tasks wait or run`, { retryAfterMs });
    task.refuse(tellRefusal(this.#pool, error));
  }

  /** Removes a task that has not begun from the queue or its worker; false if it has begun. */
  #withdraw(task: PoolTask, refusal: Refusal): boolean {
    const { worker } = task;
    if (!(worker === undefined ? this.#queue.remove(task) : worker.takeBack(task))) return false;
    this.#meter.refuse(refusal);
    this.#finish(task);
    return true;
  }

  #stop(task: PoolTask, reason: unknown, ending: Ending): void {
    const { worker } = task;
    if (task.isOver || worker === undefined) return;
    task.ending = ending;
    worker.abort(task, reason);
    const { killAfterMs } = this.#settings;
    task.kill = this.#settings.clock.after(killAfterMs, () => {
      const hasNeighbours = [...worker.tasks].some((other) => !other.isOver && other.hasBegun);
      worker.retire();
      // Tasks that run beside it get as long again to end.
      if (hasNeighbours)
        task.kill = this.#settings.clock.after(killAfterMs, () => worker.thread.terminate());
      else worker.thread.terminate();
    });
  }

  #finish(task: PoolTask): void {
    task.kill?.[Symbol.dispose]();
    this.#tasks -= 1;
    if (this.#tasks > 0) return;
    this.#resultTimer[Symbol.dispose]();
    this.#setRef(false);
    this.#onEmpty?.();
  }

  /** With `ref: false` the pool keeps the process alive only while it has tasks. */
  #setRef(isHeld: boolean): void {
    if (this.#settings.ref) return;
    this.#workers.setRef(isHeld);
    if (!isHeld) this.#deadlines.clear();
  }

  /** Ends the tasks that are past their deadline; gives the next deadline. */
  #expire(now: number): number {
    const { deadlineMs } = this.#settings;
    let nextAt = Infinity;
    for (const task of this.#unanswered()) {
      const dueAt = task.arrivedAt + deadlineMs;
      if (dueAt > now) {
        nextAt = Math.min(nextAt, dueAt);
      } else {
        const error = new SpillwayError('DEADLINE', `not done within ${deadlineMs} ms`);
        this.end(task, error, 'deadline');
      }
    }
    return nextAt;
  }

  /** The tasks whose callers have no answer yet, wherever they are. */
  #unanswered(): PoolTask[] {
    const sent = [...this.#workers.all].flatMap((worker) => [...worker.tasks]);
    return [...this.#queue, ...sent].filter((task) => !task.isOver);
  }

  /** Dispatches at the end of this turn, so that all tasks that are due go out together. */
  #dispatchSoon(): void {
    if (this.#isDispatchDue) return;
    this.#isDispatchDue = true;
    nextTick(this.#dispatch);
  }

  readonly #dispatch = (): void => {
    this.#isDispatchDue = false;
    if (this.#isPaused) return;
    const { serving } = this.#workers;
    const queue = this.#queue;
    const { hasBound } = queue;
    this.#boundBefore = this.#boundBefore.filter(({ worker }) => worker !== undefined);
    for (let task = queue.next(); task; task = queue.next()) {
      const next = task;
      // A place that an older bound task waits for is kept: unbound tasks would always take it.
      const isKept = hasBound && this.#dispatchBound(next);
      const able = isKept ? serving.filter((_, at) => !this.#nextBound(at, next)) : serving;
      const worker = leastBusy(able, next);
      if (worker === undefined) break;
      queue.take(next);
      worker.assign(next);
    }
    if (hasBound) this.#dispatchBound();
    if (queue.next() === undefined) steal(serving);
    // Of all workers: copying an input may run a getter that resizes the pool.
    for (const worker of this.#workers.all) {
      if (worker.flush(this.#unsendable)) this.#resultTimer.start();
    }
    this.#workers.noticeWear();
  };

  /**
   * Sends the bound tasks for which there is room, or of these only those whose turn is before that
   * of `free`; true if one of them has to wait for a place.
   */
  #dispatchBound(free?: PoolTask): boolean {
    let isWaiting = false;
    for (const [index, worker] of this.#workers.serving.entries()) {
      for (let task = this.#nextBound(index, free); task; task = this.#nextBound(index, free)) {
        if (!worker?.hasRoom(task)) {
          isWaiting = true;
          break;
        }
        this.#queue.remove(task);
        worker.assign(task);
      }
    }
    return isWaiting;
  }

  /** The next task bound to the worker of this index, if its turn is before that of `free`. */
  #nextBound(index: number, free: PoolTask | undefined): PoolTask | undefined {
    const task = this.#queue.nextBoundTo(index);
    if (task === undefined || (free !== undefined && !isBefore(task, free))) return undefined;
    const isBehind = this.#boundBefore.some(({ affinity }) => affinity === task.affinity);
    return isBehind || this.#isHeldBack(index) ? undefined : task;
  }

  /** True while a worker that leaves this index has tasks bound to it: none may overtake them. */
  #isHeldBack(index: number): boolean {
    for (const worker of this.#workers.all) {
      if (worker.index === index && worker.state === 'retiring' && worker.hasBound) return true;
    }
    return false;
  }

  readonly #unsendable = (task: PoolTask, error: unknown): void => {
    this.#meter.refuse('aborted');
    this.#finish(task);
    task.refuse(error);
  };

  /** Reads the results in shared memory that no message announced; false when there were none. */
  #readUnannounced(): boolean {
    const workers = [...this.#workers.all].filter(({ results }) => results.hasUnannounced);
    for (const worker of workers) this.message(worker, undefined);
    return workers.length > 0;
  }

  /** Notes that the worker is done with the task; true if its caller still waits. */
  #done(task: PoolTask, ending: 'ok' | 'failed', now: number, serviceMs: number): boolean {
    const waitMs = Math.max(0, now - task.arrivedAt - serviceMs);
    task.worker?.finish(task);
    this.#meter.pass(now, task.ending ?? ending, { waitMs, serviceMs });
    this.#finish(task);
    this.#dispatchSoon();
    return !task.isOver;
  }

  /** A worker has ended: the tasks that it had begun are lost. */
  #lose(worker: Worker): void {
    const { error: cause } = worker;
    const message = `the task's worker ended${cause instanceof Error ? `: ${cause.message}` : ''}`;
    for (const task of worker.tasks) {
      const isAwaited = this.#done(task, 'failed', this.#settings.clock.now(), 0);
      if (isAwaited) task.refuse(new SpillwayError('WORKER_LOST', message, { cause }));
    }
  }
}

/** True if the first task has a higher priority, or the same and came earlier. */
function isBefore(a: PoolTask, b: PoolTask): boolean {
  return a.priority === b.priority ? a.arrivedAt < b.arrivedAt : a.priority > b.priority;
}
