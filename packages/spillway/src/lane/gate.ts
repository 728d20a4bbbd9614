import { leaveOnAbort, releaseAfter } from '../base/abort.ts';
import { checkInteger, checkSignal } from '../base/check.ts';
import { ownSignal } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { integer, type Rules, settle } from '../base/options.ts';
import type { RunOptions, Task } from '../base/task.ts';
import { tellRefusal } from '../base/tell.ts';
import { mayGrant, nextTurn } from '../wait/turn-budget.ts';
import { entering, WaitQueue } from '../wait/wait-queue.ts';

export interface GateOptions {
  /** Number of callers inside at once. An integer from 1. */
  readonly limit: number;
  /** Number of callers that may wait outside; one more is refused. An integer from 0. */
  readonly queueMax: number;
}

export interface GateStats {
  readonly kind: 'gate';
  /** Callers that may be inside at once; 0 while the gate is paused. */
  readonly limit: number;
  readonly inside: number;
  readonly waiting: number;
}

const rules = { limit: integer(1), queueMax: integer(0) } satisfies Rules<GateOptions>;
const noOptions: RunOptions = {};
const neverAborts: AbortSignal = new AbortController().signal;

/**
 * Bounds how many callers run at once, in order of arrival. It has no deadline and measures no
 * times; a {@link Lane} does. `using _place = await gate.enter({ signal });`
 */
export class Gate {
  readonly #queueMax: number;
  #limit: number;
  /** The limit before `pause`, while the gate is paused: `#limit` is 0 then. */
  #pausedLimit = 0;
  readonly #queue = new WaitQueue<Disposable>();
  #inside = 0;
  /** True while grants are put off until the event loop has turned. */
  #isYielding = false;

  constructor(options: GateOptions) {
    const { limit, queueMax } = settle('Gate', options, rules);
    this.#limit = limit;
    this.#queueMax = queueMax;
  }

  get stats(): GateStats {
    return { kind: 'gate', limit: this.#limit, inside: this.#inside, waiting: this.#queue.size };
  }

  /**
   * Gives a place: at once if one is free, or by a promise that rejects with the signal's reason.
   * A refusal on arrival (`GATE_FULL`, or a signal that has aborted) is thrown.
   */
  enter({ signal }: RunOptions = noOptions): Disposable | Promise<Disposable> {
    checkSignal(signal);
    if (signal?.aborted) throw signal.reason;
    const free = this.#limit - this.#inside;
    if (free > 0 && this.#queue.size === 0 && mayGrant()) return this.#take();
    // Callers that have a place, and only wait for the loop to turn, take no room in the queue.
    if (this.#queue.size - Math.max(0, free) < this.#queueMax) {
      const place = this.#queue.wait(signal);
      this.#dispatch(false);
      return place;
    }
    const message = `${this.#inside} inside and ${this.#queue.size} waiting: the gate is full`;
    throw tellRefusal(this, new SpillwayError('GATE_FULL', message));
  }

  /** Gives a place at once, or none. It overtakes no waiter. */
  tryEnter(): Disposable | undefined {
    this.#dispatch(true);
    return this.#inside < this.#limit ? this.#take() : undefined;
  }

  /** Runs the task; rejects at an abort, but holds the place until the task ends. */
  async run<T>(task: Task<T>, options?: RunOptions): Promise<T> {
    const place = await entering(this, options);
    const signal = options?.signal;
    const own = signal === undefined ? neverAborts : ownSignal(signal, signal);
    return leaveOnAbort(holdDuring(place, task, own), signal, signal);
  }

  /** Changes the limit. A larger one lets waiters in at once, a smaller one ends no work. */
  resize(limit: number): void {
    checkInteger('Gate.resize: limit', limit, 1);
    if (this.#pausedLimit > 0) this.#pausedLimit = limit;
    else this.#limit = limit;
    this.#dispatch(false);
  }

  /** Lets nobody in until `resume`; up to `queueMax` callers still wait. */
  pause(): void {
    if (this.#pausedLimit > 0) return;
    this.#pausedLimit = this.#limit;
    this.#limit = 0;
  }

  /** Ends a `pause`. */
  resume(): void {
    if (this.#pausedLimit === 0) return;
    this.#limit = this.#pausedLimit;
    this.#pausedLimit = 0;
    this.#dispatch(false);
  }

  /** Refuses all waiters with `CLEARED`. */
  clear(): void {
    this.#queue.refuseAll(new SpillwayError('CLEARED', 'the queue of the gate was cleared'));
  }

  #take(): Disposable {
    this.#inside += 1;
    return new Place(this.#leave);
  }

  readonly #leave = (): void => {
    this.#inside -= 1;
    this.#dispatch(false);
  };

  /** Passes places straight to the oldest waiters, so that no newcomer slips in between. */
  #dispatch(isForced: boolean): void {
    while (this.#queue.size > 0 && this.#inside < this.#limit) {
      if (!(isForced || mayGrant())) {
        if (!this.#isYielding) nextTurn(this.#onTurn);
        this.#isYielding = true;
        return;
      }
      this.#queue.wake(this.#take());
    }
  }

  readonly #onTurn = (): void => {
    this.#isYielding = false;
    this.#dispatch(false);
  };
}

class Place implements Disposable {
  #leave: (() => void) | undefined;

  constructor(leave: () => void) {
    this.#leave = leave;
  }

  [Symbol.dispose](): void {
    const leave = this.#leave;
    this.#leave = undefined;
    leave?.();
  }
}

async function holdDuring<T>(place: Disposable, task: Task<T>, signal: AbortSignal): Promise<T> {
  try {
    return await task(signal);
  } finally {
    if (signal === neverAborts) place[Symbol.dispose]();
    else releaseAfter(place, signal);
  }
}
