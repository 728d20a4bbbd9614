import { check } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { told } from '../base/tell.ts';
import type { PoolSettings } from './options.ts';
import { uncopyable } from './wire-error.ts';
import { Worker, type WorkerEvents } from './worker.ts';

const backoffMsMin = 100;
/** The longest pause while workers fail to start. */
const backoffMsMax = 30_000;
/** The longest pause while workers start but soon crash: such tasks must not stop the pool. */
const crashMsMax = 2_000;
/** A worker that has lived this long was not lost because of how it started. */
const calmMs = 10_000;

/** The workers of a pool: started warm, replaced when they are lost or worn, never in mid-task. */
export class Workers {
  /** The ready worker of each index. */
  readonly serving: (Worker | undefined)[];
  recycled = 0;
  lost = 0;
  /** The reason why the last worker was lost or could not start. */
  lastError: unknown = undefined;
  version = 0;
  /** All workers, those that start or retire included. */
  readonly all: Set<Worker> = new Set<Worker>();
  readonly #pool: object;
  readonly #settings: PoolSettings;
  readonly #clock: Clock;
  readonly #started = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #snapshot: unknown = undefined;
  #events!: WorkerEvents;
  #isStarted = false;
  #isClosing = false;
  /** False while an idle pool lets the process end. */
  #isHeld = true;
  /** Workers in a row that did not start, or did not live for long. */
  #failures = 0;
  #restart: Disposable | undefined;
  #wear: Disposable | undefined;
  #recycledAt = -Infinity;

  /** `pool` is the part that messages on diagnostics channels name. */
  constructor(pool: object, settings: PoolSettings) {
    this.#pool = pool;
    this.#settings = settings;
    this.#clock = settings.clock;
    this.serving = new Array(settings.workers).fill(undefined);
  }

  /** Resolves when every worker is warm; rejects if one cannot start, and ends the others. */
  start(events: WorkerEvents): Promise<void> {
    this.#events = events;
    this.#fill();
    return this.#started.promise;
  }

  /** Starts workers for new indices; those of indices that are gone finish and end. */
  resize(count: number): void {
    for (const worker of this.serving.splice(count)) worker?.dismiss();
    while (this.serving.length < count) this.serving.push(undefined);
    if (this.#restart === undefined) this.#fill();
  }

  /** Sends a snapshot to all workers; one that cannot be copied fails, and changes nothing. */
  publish(value: unknown): number {
    const version = this.version + 1;
    try {
      if (this.all.size === 0) structuredClone(value);
      for (const worker of this.all) worker.thread.post({ type: 'snapshot', version, value }, []);
    } catch (cause) {
      throw uncopyable('value', value, cause);
    }
    this.version = version;
    this.#snapshot = value;
    return version;
  }

  /** Decides whether the threads keep the process alive. */
  setRef(isHeld: boolean): void {
    this.#isHeld = isHeld;
    for (const { thread } of this.all) thread.setRef(isHeld);
    if (isHeld) this.#recycle();
    else this.#wear?.[Symbol.dispose]();
  }

  /** Lets every worker finish what it has begun and end; ends those that are left at the limit. */
  async close(limit: AbortSignal): Promise<void> {
    const terminate = () => {
      for (const { thread } of this.all) thread.terminate();
    };
    this.#close();
    if (limit.aborted) terminate();
    else limit.addEventListener('abort', terminate, { once: true });
    await this.#ended.promise;
    limit.removeEventListener('abort', terminate);
  }

  #close(): void {
    this.#isClosing = true;
    this.#restart?.[Symbol.dispose]();
    this.#wear?.[Symbol.dispose]();
    // A worker that is starting is left alone until it is ready: native code that its module loads,
    // such as onnxruntime, may end the whole process if its thread is ended meanwhile.
    for (const worker of this.all) worker.retire();
    if (this.all.size === 0) this.#ended.resolve();
  }

  /** Replaces a worker that has done its tasks or takes too much memory; age has a timer. */
  noticeWear(): void {
    const now = this.#clock.now();
    if (this.serving.some((worker) => worker && this.#isWorn(worker, now))) this.#recycle();
  }

  /** Replaces the worker of this index, or all in turn. */
  recycle(index: number | undefined): void {
    const asked = index === undefined ? this.serving : [this.serving[index]];
    const isThere = index === undefined || asked[0] !== undefined;
    check(isThere, 'index', 'that of a worker that is ready', index);
    for (const worker of asked) if (worker) worker.isDue = true;
    this.#recycle();
  }

  #isWorn({ readyAt, done, slots }: Worker, now: number): boolean {
    const { ageMsMax, tasksMax, heapMbMax } = this.#settings.recycle;
    const isOld = now - readyAt >= ageMsMax || done >= tasksMax;
    return isOld || slots.heapBytes > heapMbMax * 2 ** 20;
  }

  /** Replaces the most worn worker, if one is due and no other is being replaced. */
  #recycle(): void {
    const { ageMsMax, intervalMs } = this.#settings.recycle;
    const now = this.#clock.now();
    const isFull = this.all.size === this.serving.length && !this.serving.includes(undefined);
    if (this.#isClosing || !(this.#isStarted && isFull) || this.#restart !== undefined) return;
    const serving = this.serving as Worker[];
    const worn = serving.filter((worker) => this.#isWorn(worker, now));
    const due = serving.find(({ isDue }) => isDue);
    const oldest = due ?? worn.toSorted((a, b) => a.readyAt - b.readyAt)[0];
    const restMs = due ? 0 : this.#recycledAt + intervalMs - now;
    if (oldest !== undefined && restMs <= 0) {
      this.#recycledAt = now;
      this.#spawn(oldest.index);
      return;
    }
    const youngMs = Math.min(...serving.map(({ readyAt }) => readyAt)) + ageMsMax - now;
    const waitMs = oldest === undefined ? youngMs : restMs;
    this.#wear?.[Symbol.dispose]();
    if (this.#isHeld) this.#wear = this.#clock.after(Math.max(0, waitMs), () => this.#recycle());
  }

  #spawn(index: number): void {
    const start = { index, version: this.version, value: this.#snapshot };
    const changed = (worker: Worker) => this.#changed(worker);
    const { message } = this.#events;
    try {
      const worker = new Worker(this.#settings, start, { message, changed });
      this.all.add(worker);
      if (!this.#isHeld) worker.thread.setRef(false);
    } catch (error) {
      // The system may have no memory or no thread left.
      this.#failed(error, false);
    }
  }

  #changed(worker: Worker): void {
    const isServing = this.serving[worker.index] === worker;
    if (worker.state === 'ready') this.#ready(worker);
    else if (isServing) this.serving[worker.index] = undefined;
    if (worker.state === 'gone') this.#gone(worker);
    this.#events.changed(worker);
    if (worker.state === 'gone' && this.all.size === 0 && this.#isClosing) this.#ended.resolve();
  }

  #ready(worker: Worker): void {
    if (this.#isClosing || worker.index >= this.serving.length) {
      worker.dismiss();
      return;
    }
    const old = this.serving[worker.index];
    this.serving[worker.index] = worker;
    if (old !== undefined) {
      this.recycled += 1;
      old.dismiss();
      if (told.recycled.hasSubscribers) told.recycled.publish({ part: this.#pool });
    }
    if (!(this.#isStarted || this.serving.includes(undefined))) {
      this.#isStarted = true;
      if (!this.#settings.ref) this.setRef(false);
      this.#started.resolve();
    }
    this.#recycle();
  }

  #gone(worker: Worker): void {
    this.all.delete(worker);
    const isAsked = worker.isDismissed || this.#isClosing;
    if (!isAsked) worker.error ??= new Error('it ended by itself');
    this.lastError = worker.error ?? this.lastError;
    if (this.#isClosing) return;
    if (worker.isDismissed) this.#recycle();
    else {
      const { readyAt } = worker;
      if (this.#clock.now() - readyAt >= calmMs) this.#failures = -1;
      if (readyAt < Infinity) this.lost += 1;
      this.#failed(worker.error, readyAt < Infinity);
    }
  }

  /** A worker could not start, or was lost. */
  #failed(cause: unknown, wasReady: boolean): void {
    this.lastError = cause;
    this.#failures += 1;
    if (told.lost.hasSubscribers) told.lost.publish({ part: this.#pool, error: cause });
    if (this.#isStarted) this.#restartSoon(wasReady ? crashMsMax : backoffMsMax);
    else {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `a worker could not be started: ${reason}`;
      this.#close();
      const error = new SpillwayError('POOL_START', message, { cause });
      void this.#ended.promise.then(() => this.#started.reject(error));
    }
  }

  /** Starts the workers that are missing, after a pause that grows while they fail. */
  #restartSoon(waitMsMax: number): void {
    if (this.#restart !== undefined || this.#isClosing) return;
    const { random } = this.#settings;
    const backoffMs = Math.min(waitMsMax, backoffMsMin * 2 ** Math.min(this.#failures - 2, 20));
    const waitMs = this.#failures < 2 ? 0 : backoffMs * (0.5 + random() / 2);
    this.#restart = this.#clock.after(waitMs, () => {
      this.#restart = undefined;
      this.#fill();
      this.#recycle();
    });
  }

  /** Starts the workers that are missing; stops if the first ones of a new pool cannot start. */
  #fill(): void {
    const starting = [...this.all].filter(({ state }) => state === 'starting');
    for (const [index, worker] of this.serving.entries()) {
      const isFilled = worker !== undefined || starting.some((other) => other.index === index);
      if (!isFilled && !this.#isClosing) this.#spawn(index);
    }
  }
}
