import { checkNumber } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { FromWorker, ThreadStart, ToWorker } from '../pool/messages.ts';
import { TaskRunner } from '../pool/thread/runner.ts';
import type { Thread, ThreadEvents, Threads } from '../pool/threads.ts';

export interface SimulatedThreadsOptions {
  /** Virtual clock of the pool. */
  readonly clock: Clock;
  /** Source of chance for the delay of messages. @default systemRandom */
  readonly random?: Random | undefined;
  /** The longest delay of a message, in ms; each direction keeps its order. @default 0 */
  readonly delayMsMax?: number | undefined;
}

/**
 * A simulation, for tests on a virtual clock: the worker module runs in this thread, one copy of
 * its resources for each worker, and messages are copied and delayed as between real threads. It
 * cannot show what blocks a thread; real threads can. `Pool.open({ …, threads: simulated.start })`
 */
export class SimulatedThreads {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #delayMsMax: number;
  readonly #running = new Set<SimulatedThread>();

  constructor(options: SimulatedThreadsOptions) {
    const { clock, random = systemRandom, delayMsMax = 0 } = options;
    checkNumber('delayMsMax', delayMsMax, 0, 60_000);
    this.#clock = clock;
    this.#random = random;
    this.#delayMsMax = delayMsMax;
  }

  /** Number of live threads. */
  get size(): number {
    return this.#running.size;
  }

  readonly start: Threads = (start, events) => {
    const clock = this.#clock;
    const delayMs = () => this.#random() * this.#delayMsMax;
    const thread: SimulatedThread = new SimulatedThread(start, { clock, delayMs }, (error) => {
      if (this.#running.delete(thread)) events.exit(error);
    });
    this.#running.add(thread);
    thread.connect(events);
    return thread;
  };

  /** Ends one thread at once, as if it had crashed; false when there is none. */
  crash(): boolean {
    const all = [...this.#running];
    const thread = all[Math.floor(this.#random() * all.length)];
    thread?.end(new Error('it crashed'));
    return thread !== undefined;
  }
}

class SimulatedThread implements Thread {
  readonly utilisation = 0;
  readonly #clock: Clock;
  readonly #delayMs: () => number;
  readonly #runner: TaskRunner;
  readonly #slots: SharedArrayBuffer;
  readonly #exit: (error: unknown) => void;
  readonly #timers = new Set<Disposable>();
  #events: ThreadEvents | undefined;
  #hasEnded = false;
  #toWorkerAt = 0;
  #fromWorkerAt = 0;

  constructor(
    start: ThreadStart,
    time: { readonly clock: Clock; readonly delayMs: () => number },
    exit: (error: unknown) => void,
  ) {
    this.#clock = time.clock;
    this.#delayMs = time.delayMs;
    this.#exit = exit;
    this.#slots = start.slots;
    this.#runner = new TaskRunner(structuredClone(start), {
      clock: time.clock,
      post: (message, transfer) => {
        const copy: FromWorker = structuredClone(message, { transfer: [...transfer] });
        this.#fromWorkerAt = this.#later(this.#fromWorkerAt, () => this.#events?.message(copy));
      },
      close: () => {
        this.#fromWorkerAt = this.#later(this.#fromWorkerAt, () => this.end(undefined));
      },
    });
  }

  connect(events: ThreadEvents): void {
    this.#events = events;
  }

  post(message: ToWorker, transfer: readonly ArrayBuffer[]): void {
    const copy: ToWorker = structuredClone(message, { transfer: [...transfer] });
    this.#toWorkerAt = this.#later(this.#toWorkerAt, () => this.#runner.receive(copy));
  }

  terminate(): void {
    this.#fromWorkerAt = this.#later(this.#fromWorkerAt, () => this.end(undefined));
  }

  /** Does nothing: the simulated threads live in the process of the test. */
  setRef(): void {}

  end(error: unknown): void {
    this.#hasEnded = true;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#timers.clear();
    this.#exit(error);
    // Handlers that have begun go on here; none begins in a thread that has ended.
    new Int32Array(this.#slots).fill(-1);
  }

  /** Delivers after a random time, but not before what was sent earlier the same way. */
  #later(notBefore: number, deliver: () => void): number {
    // Handlers cannot be ended from outside; messages that they still send are discarded.
    if (this.#hasEnded) return notBefore;
    const now = this.#clock.now();
    const at = Math.max(notBefore, now + this.#delayMs());
    const timer = this.#clock.after(at - now, () => {
      this.#timers.delete(timer);
      deliver();
    });
    this.#timers.add(timer);
    return at;
  }
}
