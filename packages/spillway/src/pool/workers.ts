import { misuse } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import type { Random } from '../base/random.ts';
import { isWorn, type RecycleOptions } from './recycle.ts';
import type { Snapshot } from './snapshot.ts';
import type { Threads } from './thread-start.ts';
import { type FromWorker, unpackError } from './wire.ts';
import { PoolMember, type WorkerStats } from './worker.ts';

interface CrewOptions {
  readonly module: URL;
  readonly workers: number;
  readonly concurrency: number;
  readonly startMsMax: number;
  readonly recycle: RecycleOptions;
  readonly heapMbMax: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly threads: Threads;
  readonly snapshot: Snapshot<unknown>;
}

interface CrewEvents {
  message(member: PoolMember, message: FromWorker): void;
  /** Another worker can take tasks. */
  available(): void;
  /** This worker takes no more tasks; those that have not begun are to be taken back. */
  retire(member: PoolMember): void;
  /** This worker's thread has ended, for this reason if it was not asked to. */
  gone(member: PoolMember, error: unknown): void;
}

const backoffMsMin = 100;
/** The longest pause while workers fail to start. */
const backoffMsMax = 30_000;
/** The longest pause while they start but do not live: tasks that kill must not close the pool. */
const crashMsMax = 2_000;
/** A worker that has lived so long was not lost because of how it started. */
const calmMs = 10_000;

/** The workers of a pool: started warm, replaced when they are lost or worn, never in mid-task. */
export class PoolCrew {
  handlers: readonly string[] = [];
  /** The ready worker of each seat. */
  readonly serving: (PoolMember | undefined)[];
  recycled = 0;
  lost = 0;
  lastError: unknown = undefined;
  readonly #options: CrewOptions;
  readonly #events: CrewEvents;
  readonly #members = new Set<PoolMember>();
  readonly #started = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #isStarted = false;
  #isClosing = false;
  /** Workers in a row that did not start, or did not live for long. */
  #failures = 0;
  #restart: Disposable | undefined;
  #wear: Disposable | undefined;
  #recycledAt = -Infinity;

  constructor(options: CrewOptions, events: CrewEvents) {
    this.#options = options;
    this.#events = events;
    this.serving = new Array(options.workers).fill(undefined);
  }

  /** Resolves when every worker is warm; rejects if one cannot start, and ends the others. */
  start(): Promise<void> {
    for (const seat of this.serving.keys()) this.#spawn(seat);
    return this.#started.promise;
  }

  get stats(): readonly WorkerStats[] {
    const now = this.#options.clock.now();
    return [...this.#members].map((member) => ({
      seat: member.seat,
      state: member.state,
      ageMs: now - member.startedAt,
      tasks: member.tasks,
      waiting: member.dispatched.size,
      utilisation: member.utilisation,
      heapBytes: member.slots.heapBytes,
    }));
  }

  get members(): ReadonlySet<PoolMember> {
    return this.#members;
  }

  /** Replaces the most worn worker, if one is due and no other is being replaced. */
  checkWear(): void {
    const { clock, recycle } = this.#options;
    const { ageMsMax = Infinity, intervalMs = 1_000 } = recycle;
    const now = clock.now();
    const isFull = this.#members.size === this.serving.length && !this.serving.includes(undefined);
    if (this.#isClosing || !(this.#isStarted && isFull) || this.#restart !== undefined) return;
    const serving = this.serving as PoolMember[];
    const worn = serving.filter((member) => isWorn(member, recycle, now));
    const oldest = worn.reduce<PoolMember | undefined>(
      (found, member) => (found && found.readyAt <= member.readyAt ? found : member),
      undefined,
    );
    const restMs = this.#recycledAt + intervalMs - now;
    if (oldest !== undefined && restMs <= 0) {
      this.#recycledAt = now;
      this.#spawn(oldest.seat);
      return;
    }
    // Wear by age comes without any event; that by tasks or memory is seen when a task ends.
    const youngMs = Math.min(...serving.map(({ readyAt }) => readyAt)) + ageMsMax - now;
    const waitMs = oldest === undefined ? youngMs : restMs;
    this.#wear?.[Symbol.dispose]();
    this.#wear = clock.after(Math.max(0, waitMs), () => this.checkWear());
  }

  /** Sends a snapshot to all workers; one that cannot be copied fails, and changes nothing. */
  publish(value: unknown, version: number): void {
    try {
      if (this.#members.size === 0) structuredClone(value);
      for (const member of this.#members) member.publish(value, version);
    } catch (cause) {
      throw misuse('value', 'a value that can be copied', value, cause);
    }
  }

  /** Whether one that leaves this seat still has tasks bound to it: the next must not overtake. */
  isHeld(seat: number): boolean {
    for (const member of this.#members) {
      if (member.seat === seat && member.state === 'retiring' && member.hasBound) return true;
    }
    return false;
  }

  /** Looks whether tasks or memory have worn a worker, as they do without any event. */
  noticeWear(): void {
    const { recycle } = this.#options;
    const { tasksMax, heapMbMax } = recycle;
    if (tasksMax === undefined && heapMbMax === undefined) return;
    const now = this.#options.clock.now();
    if (this.serving.some((member) => member && isWorn(member, recycle, now))) this.checkWear();
  }

  /** Lets a worker that takes no more tasks end, once it has none left. */
  settle(member: PoolMember): void {
    if (member.state !== 'retiring' || member.dispatched.size > 0 || member.timer) return;
    member.close();
    const { clock, startMsMax } = this.#options;
    member.timer = clock.after(startMsMax, () => member.terminate());
  }

  /** Ends a worker that does not obey; whatever else it has begun is lost. */
  kill(member: PoolMember): void {
    this.retire(member);
    member.terminate();
  }

  /** Lets every worker finish what it has begun and end. */
  close(): Promise<void> {
    this.#isClosing = true;
    this.#restart?.[Symbol.dispose]();
    this.#wear?.[Symbol.dispose]();
    for (const member of this.#members) {
      // One that starts is let be until it is ready: native code that a module loads meanwhile may
      // end the whole process if its thread is ended under it, as onnxruntime does.
      this.retire(member);
      this.settle(member);
    }
    this.#settleClose();
    return this.#ended.promise;
  }

  terminate(): void {
    for (const member of this.#members) member.terminate();
  }

  #spawn(seat: number): void {
    const { module, concurrency, startMsMax, heapMbMax, clock, threads, snapshot } = this.#options;
    let failure: unknown;
    const member = new PoolMember({
      seat,
      concurrency,
      now: clock.now(),
      snapshot,
      spawn: (buffer, spawned) =>
        threads(
          { module: module.href, concurrency, buffer },
          {
            message: (message) => {
              if (message?.type === 'ready') this.#ready(spawned, message.handlers);
              else if (message?.type === 'failed') failure = unpackError(message.error);
              else if (message?.type === 'released') spawned.released(message.version);
              else this.#events.message(spawned, message);
            },
            exit: (error) => this.#exited(spawned, failure ?? error),
          },
          { heapMbMax },
        ),
    });
    this.#members.add(member);
    member.timer = clock.after(startMsMax, () => {
      failure = new Error(`its setup took more than ${startMsMax} ms`);
      member.terminate();
    });
  }

  #ready(member: PoolMember, handlers: readonly string[]): void {
    this.handlers = handlers;
    member.timer?.[Symbol.dispose]();
    member.timer = undefined;
    member.readyAt = this.#options.clock.now();
    member.state = 'ready';
    if (this.#isClosing) {
      this.retire(member);
      this.settle(member);
      return;
    }
    const old = this.serving[member.seat];
    this.serving[member.seat] = member;
    if (old !== undefined) {
      this.recycled += 1;
      old.isReplaced = true;
      this.retire(old);
      this.settle(old);
    }
    if (!(this.#isStarted || this.serving.includes(undefined))) {
      this.#isStarted = true;
      this.#started.resolve();
    }
    this.#events.available();
    this.checkWear();
  }

  /** Gives the worker no more tasks. */
  retire(member: PoolMember): void {
    if (member.state !== 'ready') return;
    member.state = 'retiring';
    if (this.serving[member.seat] === member) this.serving[member.seat] = undefined;
    this.#events.retire(member);
  }

  #exited(member: PoolMember, reason: unknown): void {
    if (!this.#members.delete(member)) return;
    const { state, seat, readyAt, isReplaced } = member;
    if (this.serving[seat] === member) this.serving[seat] = undefined;
    const isAsked = isReplaced || this.#isClosing;
    const error = reason ?? (isAsked ? undefined : new Error('it ended by itself'));
    this.lastError = error ?? this.lastError;
    member.end();
    this.#events.gone(member, error);
    this.#settleClose();
    if (this.#isClosing) return;
    if (!isReplaced) {
      const isCalm = this.#options.clock.now() - readyAt >= calmMs;
      this.#failures = isCalm ? 0 : this.#failures + 1;
      if (state !== 'starting') this.lost += 1;
      if (this.#isStarted) this.#restartSoon(state === 'starting' ? backoffMsMax : crashMsMax);
      else this.#failStart(error);
    }
    this.checkWear();
  }

  #failStart(cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `a worker could not be started: ${reason}`;
    const error = new SpillwayError('POOL_START', message, { cause });
    void this.close().then(() => this.#started.reject(error));
  }

  /** Fills the empty seats, after a pause that grows while workers fail to start. */
  #restartSoon(waitMsMax: number): void {
    if (this.#restart !== undefined) return;
    const { clock, random } = this.#options;
    const backoffMs = Math.min(waitMsMax, backoffMsMin * 2 ** Math.min(this.#failures - 2, 20));
    const waitMs = this.#failures < 2 ? 0 : backoffMs * (0.5 + random() / 2);
    this.#restart = clock.after(waitMs, () => {
      this.#restart = undefined;
      const starting = [...this.#members].filter(({ state }) => state === 'starting');
      for (const [seat, member] of this.serving.entries()) {
        const isFilled = member !== undefined || starting.some((other) => other.seat === seat);
        if (!isFilled) this.#spawn(seat);
      }
      this.checkWear();
    });
  }

  #settleClose(): void {
    if (this.#isClosing && this.#members.size === 0) this.#ended.resolve();
  }
}
