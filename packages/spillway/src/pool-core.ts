import { check, checkInteger } from './check.ts';
import type { Clock } from './clock.ts';
import { deadline } from './deadline.ts';
import { SpillwayError } from './errors.ts';
import { FairQueue, hashOf, priorityMax } from './fair-queue.ts';
import { LinkedList } from './linked-list.ts';
import { Meter } from './meter.ts';
import type { PoolStats } from './pool.ts';
import { PoolCrew, type RecycleOptions } from './pool-crew.ts';
import type { PoolMember } from './pool-member.ts';
import { PoolTask, type RunOptions } from './pool-task.ts';
import type { Threads } from './pool-thread.ts';
import { type FromWorker, slotOf, unpackError } from './pool-wire.ts';
import type { Random } from './random.ts';
import { Snapshot } from './snapshot.ts';

interface CoreOptions {
  readonly module: URL;
  readonly workers: number;
  readonly concurrency: number;
  readonly queueMax: number;
  readonly deadlineMs: number;
  readonly killAfterMs: number;
  readonly startMsMax: number;
  readonly recycle: RecycleOptions;
  readonly heapMbMax: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly threads: Threads;
}

interface Call {
  readonly name: string;
  readonly input: unknown;
  readonly isStream: boolean;
  readonly chunk?: (value: unknown) => void;
}

/** How a pool's tasks find their workers and come back. Who the workers are is the crew's concern. */
export class PoolCore {
  readonly #options: CoreOptions;
  readonly #clock: Clock;
  readonly #crew: PoolCrew;
  readonly #meter: Meter;
  readonly #snapshot = new Snapshot<unknown>(undefined);
  readonly #seed: number;
  readonly #queue: FairQueue<PoolTask>;
  /** For each seat, the tasks that only its worker may run. */
  readonly #bound: readonly LinkedList<PoolTask>[];
  readonly #handlers = new Map<string, number>();
  /** How long each handler's tasks have taken lately. */
  readonly #expectedMs: (number | undefined)[] = [];
  /** Tasks that wait or run. */
  #tasks = 0;
  #isDispatchDue = false;
  /** Goes off when the oldest task may be past its deadline; there is one only while one is here. */
  #timer: Disposable | undefined;
  #closing: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(options: CoreOptions) {
    const { clock, random, workers } = options;
    this.#options = options;
    this.#clock = clock;
    this.#meter = new Meter(clock.now());
    this.#seed = random() * 2 ** 32;
    this.#queue = new FairQueue<PoolTask>(this.#seed);
    this.#bound = Array.from({ length: workers }, () => new LinkedList<PoolTask>());
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
    for (const [number, name] of this.#crew.handlers.entries()) this.#handlers.set(name, number);
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
      ...Meter.stats([this.#meter], this.#clock.now()),
      workers: this.#crew.stats,
      recycled: this.#crew.recycled,
      lost: this.#crew.lost,
      lastError: this.#crew.lastError,
      snapshot: this.#snapshot.stats,
    };
  }

  submit(call: Call, options: RunOptions): PoolTask {
    const { signal, affinity, priority = 0 } = options;
    const number = this.#handlers.get(call.name);
    const names = [...this.#handlers.keys()].join(', ');
    check(number !== undefined, 'name', `one of the module's handlers: ${names}`, call.name);
    checkInteger('priority', priority, 0, priorityMax);
    const { workers, concurrency, queueMax } = this.#options;
    const seat = affinity === undefined ? undefined : hashOf(affinity, this.#seed) % workers;
    const handler = call.isStream ? -1 - number : number;
    const { input, chunk } = call;
    const place = { handler, input, chunk, seat, arrivedAt: this.#clock.now() };
    const task = new PoolTask(place, options, this.#left);
    this.#meter.arrive();
    if (signal?.aborted) {
      this.#meter.refuse('aborted');
      task.refuse(signal.reason);
    } else if (this.#closing !== undefined) {
      this.#refuse(task, 'closed');
    } else {
      this.#enqueue(task);
      this.#tasks += 1;
      if (this.#tasks > workers * concurrency + queueMax) this.#trim(task);
      if (this.#timer === undefined && this.#tasks > 0) this.#watch(task.arrivedAt);
      this.#dispatchSoon();
    }
    return task;
  }

  /** Takes the task away from wherever it is; one that has begun is told to stop. */
  stop(task: PoolTask, reason: unknown, refusal: 'aborted' | 'deadline' = 'aborted'): void {
    const { member } = task;
    if (task.isOver) return;
    if (member === undefined ? this.#dequeue(task) : member.takeBack(task)) {
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
    // Before anything is changed here: a value that cannot be copied fails with the first worker.
    for (const member of this.#crew.members) member.publish(value, version);
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
    for (const task of this.#waiting()) {
      this.#dequeue(task);
      this.#finish(task);
      this.#refuse(task, 'closed');
    }
    const ended = this.#crew.close();
    await Promise.race([ended, over]);
    this.#crew.terminate();
    await ended;
  }

  #waiting(): PoolTask[] {
    return [...this.#queue, ...this.#bound.flatMap((list) => [...list])];
  }

  #enqueue(task: PoolTask, comesBack = false): void {
    const list = task.seat === undefined ? undefined : this.#bound[task.seat];
    if (list === undefined) this.#queue.push(task, comesBack);
    else if (comesBack) list.unshift(task);
    else list.push(task);
  }

  #dequeue(task: PoolTask): boolean {
    const list = task.seat === undefined ? this.#queue : this.#bound[task.seat];
    return list?.remove(task) ?? false;
  }

  /** One too many waits: the newest of whoever has most waiting is refused. */
  #trim(newcomer: PoolTask): void {
    const task = newcomer.seat === undefined ? this.#queue.surplus(newcomer) : newcomer;
    this.#dequeue(task ?? newcomer);
    this.#finish(task ?? newcomer);
    this.#refuse(task ?? newcomer, 'full');
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
    this.#tasks -= 1;
    if (this.#tasks > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    this.#onEmpty?.();
  }

  readonly #left = (task: PoolTask, reason: unknown): void => this.stop(task, reason);

  #watch(oldestAt: number): void {
    const waitMs = Math.max(0, oldestAt + this.#options.deadlineMs - this.#clock.now());
    this.#timer = this.#clock.after(waitMs, () => {
      this.#timer = undefined;
      const oldest = this.#expire(this.#clock.now());
      if (oldest < Infinity) this.#watch(oldest);
    });
  }

  /** Ends what is past its deadline; gives the arrival of the oldest that is not. */
  #expire(now: number): number {
    let oldestAt = Infinity;
    const running = [...this.#crew.members].flatMap((member) => [...member.dispatched]);
    for (const task of [...this.#waiting(), ...running]) {
      if (task.isOver) continue;
      if (now - task.arrivedAt < this.#options.deadlineMs) {
        oldestAt = Math.min(oldestAt, task.arrivedAt);
        continue;
      }
      const message = `not done within ${this.#options.deadlineMs} ms`;
      const error = new SpillwayError('DEADLINE', message);
      this.stop(task, error, 'deadline');
      task.refuse(error);
    }
    return oldestAt;
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
    for (let task = this.#queue.next(); task; task = this.#queue.next()) {
      const member = leastBusy(serving, task, this.#expectation(task));
      if (member === undefined) break;
      this.#queue.take(task);
      member.assign(task, this.#expectation(task));
    }
    for (const [seat, list] of this.#bound.entries()) {
      const member = serving[seat];
      for (let task = list.first; task && member?.hasRoom(task, this.#expectation(task)); ) {
        list.shift();
        member.assign(task, this.#expectation(task));
        task = list.first;
      }
    }
    if (this.#queue.size === 0) share(serving);
    for (const member of serving) member?.flush(this.#unsendable);
    this.#crew.noticeWear();
  };

  #expectation(task: PoolTask): number | undefined {
    return this.#expectedMs[task.handler < 0 ? -1 - task.handler : task.handler];
  }

  readonly #unsendable = (task: PoolTask, error: unknown): void => {
    this.#finish(task);
    task.refuse(error);
  };

  #receive(member: PoolMember, message: FromWorker): void {
    const now = this.#clock.now();
    member.slots.drain((slot, result, durationMs) => {
      const task = member.taskAt(slot);
      if (task !== undefined && this.#end(member, task, now, durationMs)) task.grant(result);
    });
    if (message === undefined || !('ticket' in message)) return;
    const task = member.taskAt(slotOf(message.ticket));
    if (task?.ticket !== message.ticket) return;
    if (message.type === 'chunk') {
      if (!task.isOver) task.chunk?.(message.value);
    } else if (this.#end(member, task, now, message.durationMs)) {
      if (message.type === 'result') task.grant(message.value);
      else task.refuse(unpackError(message.error));
    }
  }

  /** The worker is done with the task; true when its caller is still to be told. */
  #end(member: PoolMember, task: PoolTask, now: number, serviceMs: number): boolean {
    const number = task.handler < 0 ? -1 - task.handler : task.handler;
    const expectedMs = this.#expectedMs[number] ?? serviceMs;
    this.#expectedMs[number] = expectedMs + (serviceMs - expectedMs) * 0.1;
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
    for (const task of member.revoke(member.dispatched.size, canReturn)) this.#enqueue(task, true);
    this.#dispatchSoon();
  }

  /** A worker is gone: what it had not begun runs elsewhere, what it had begun is lost. */
  #lose(member: PoolMember, cause: unknown): void {
    this.#receive(member, undefined);
    this.#takeBack(member);
    const reason = cause instanceof Error ? `: ${cause.message}` : '';
    for (const task of member.dispatched) {
      if (!this.#end(member, task, this.#clock.now(), 0)) continue;
      task.refuse(new SpillwayError('WORKER_LOST', `the task's worker ended${reason}`, { cause }));
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

/** Of those with room for the task, the one with the fewest: so batches stay whole and even. */
function leastBusy(
  members: readonly (PoolMember | undefined)[],
  task: PoolTask,
  expectedMs: number | undefined,
): PoolMember | undefined {
  let best: PoolMember | undefined;
  for (const member of members) {
    if (best !== undefined && (member?.dispatched.size ?? Infinity) >= best.dispatched.size)
      continue;
    if (member?.hasRoom(task, expectedMs)) best = member;
  }
  return best;
}

/** Idle workers take over what waits in busy ones: nothing waits behind a long task for nothing. */
function share(members: readonly (PoolMember | undefined)[]): void {
  const canMove = (task: PoolTask) => task.isMovable;
  for (const idle of members) {
    if (idle?.state !== 'ready' || !idle.isIdle) continue;
    let fullest: PoolMember | undefined;
    for (const member of members) {
      if ((member?.prefetched ?? 0) > (fullest?.prefetched ?? 0)) fullest = member;
    }
    if (fullest === undefined) return;
    const taken = fullest.revoke(Math.ceil(fullest.prefetched / 2), canMove);
    for (const task of taken.reverse()) idle.assign(task, task.expectedMs);
  }
}
