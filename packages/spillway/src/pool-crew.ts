import type { Clock } from './clock.ts';
import { SpillwayError } from './errors.ts';
import { PoolMember, type WorkerState } from './pool-member.ts';
import type { Threads } from './pool-thread.ts';
import { type FromWorker, unpackError } from './pool-wire.ts';
import type { Random } from './random.ts';
import type { Snapshot } from './snapshot.ts';

export interface RecycleOptions {
  /** Replaces a worker that has been ready for so many milliseconds. @default never */
  readonly ageMsMax?: number | undefined;
  /** Replaces a worker that has done so many tasks. @default never */
  readonly tasksMax?: number | undefined;
  /** Replaces a worker whose heap and buffers take more than so many megabytes. @default never */
  readonly heapMbMax?: number | undefined;
  /** Milliseconds from one replacement to the next, at least. @default 1000 */
  readonly intervalMs?: number | undefined;
}

export interface WorkerStats {
  /** The worker's place in the pool; its replacement gets the same. */
  readonly seat: number;
  readonly state: WorkerState;
  /** Milliseconds since it was started. */
  readonly ageMs: number;
  /** How many tasks it has done. */
  readonly tasks: number;
  /** Tasks it has now, begun or not. */
  readonly waiting: number;
  /** The share of its life that it was busy, from 0 to 1. */
  readonly utilisation: number;
  /** Bytes in use by its heap and buffers, as it last measured. */
  readonly heapBytes: number;
}

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
const backoffMsMax = 30_000;

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
  /** Failures to start in a row. */
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
    const isBusy = this.#members.size > this.serving.length || this.serving.includes(undefined);
    if (this.#isClosing || !this.#isStarted || isBusy) return;
    const serving = this.serving as PoolMember[];
    const worn = serving.filter((member) => this.#isWorn(member, now));
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

  /** Looks whether tasks or memory have worn a worker, as they do without any event. */
  noticeWear(): void {
    const { tasksMax, heapMbMax } = this.#options.recycle;
    if (tasksMax === undefined && heapMbMax === undefined) return;
    const now = this.#options.clock.now();
    if (this.serving.some((member) => member && this.#isWorn(member, now))) this.checkWear();
  }

  /** Lets a worker that takes no more tasks end, once it has none left. */
  settle(member: PoolMember): void {
    if (member.state === 'retiring' && member.dispatched.size === 0) member.close();
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
      if (member.state === 'starting') member.terminate();
      else this.retire(member);
      this.settle(member);
    }
    this.#settleClose();
    return this.#ended.promise;
  }

  terminate(): void {
    for (const member of this.#members) member.terminate();
  }

  #isWorn(member: PoolMember, now: number): boolean {
    const { ageMsMax = Infinity, tasksMax = Infinity, heapMbMax } = this.#options.recycle;
    const heapBytesMax = (heapMbMax ?? Infinity) * 2 ** 20;
    const isOld = now - member.readyAt >= ageMsMax || member.tasks >= tasksMax;
    return isOld || member.slots.heapBytes > heapBytesMax;
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
    this.#failures = 0;
    member.timer?.[Symbol.dispose]();
    member.readyAt = this.#options.clock.now();
    member.state = 'ready';
    const old = this.serving[member.seat];
    this.serving[member.seat] = member;
    if (old !== undefined) {
      this.recycled += 1;
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

  #exited(member: PoolMember, error: unknown): void {
    if (!this.#members.delete(member)) return;
    const { state, seat } = member;
    if (this.serving[seat] === member) this.serving[seat] = undefined;
    member.end();
    this.#events.gone(member, error);
    this.#settleClose();
    if (this.#isClosing) return;
    if (state !== 'retiring' || this.serving[seat] === undefined) {
      this.lastError = error;
      if (state === 'starting') this.#failures += 1;
      else this.lost += 1;
      if (this.#isStarted) this.#restartSoon();
      else this.#failStart(error);
    }
    this.checkWear();
  }

  #failStart(cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : 'it ended by itself';
    const message = `a worker could not be started: ${reason}`;
    this.#started.reject(new SpillwayError('POOL_START', message, { cause }));
    void this.close();
  }

  /** Fills the empty seats, after a pause that grows while workers fail to start. */
  #restartSoon(): void {
    if (this.#restart !== undefined) return;
    const { clock, random } = this.#options;
    const backoffMs = Math.min(backoffMsMax, backoffMsMin * 2 ** Math.min(this.#failures, 20));
    const waitMs = this.#failures === 0 && this.lost < 3 ? 0 : backoffMs * (0.5 + random() / 2);
    this.#restart = clock.after(waitMs, () => {
      this.#restart = undefined;
      const starting = [...this.#members].filter(({ state }) => state === 'starting');
      for (const [seat, member] of this.serving.entries()) {
        const isFilled = member !== undefined || starting.some((other) => other.seat === seat);
        if (!isFilled) this.#spawn(seat);
      }
    });
  }

  #settleClose(): void {
    if (this.#isClosing && this.#members.size === 0) this.#ended.resolve();
  }
}
