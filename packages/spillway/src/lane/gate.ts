import { checkInteger } from '../base/check.ts';
import { SpillwayError } from '../base/errors.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import { mayGrant, nextTurn } from '../wait/turn.ts';
import { WaitQueue } from '../wait/wait-queue.ts';

export interface GateOptions {
  /** How many may be inside at once. An integer from 1. */
  readonly limit: number;
  /** How many may wait outside; one more is refused. An integer from 0. */
  readonly queueMax: number;
}

export interface GateStats {
  readonly limit: number;
  readonly inside: number;
  readonly waiting: number;
}

/**
 * Bounds how many run at once, in the order they came. It has no numbers and no deadline of its
 * own: a {@link Lane} has. `using _place = await gate.enter(signal);`
 */
export class Gate {
  readonly #options: GateOptions;
  readonly #queue = new WaitQueue<Disposable>();
  #inside = 0;
  /** True while grants are put off until the event loop has turned. */
  #yielding = false;

  constructor(options: GateOptions) {
    checkInteger('limit', options.limit, 1);
    checkInteger('queueMax', options.queueMax, 0);
    this.#options = options;
  }

  get stats(): GateStats {
    return { limit: this.#options.limit, inside: this.#inside, waiting: this.#queue.size };
  }

  /** Waits for a place; rejects with `GATE_FULL` or the signal's reason. */
  enter(signal?: AbortSignal): Promise<Disposable> {
    if (signal?.aborted) return rejectSoon(signal.reason);
    const { limit, queueMax } = this.#options;
    const free = limit - this.#inside;
    if (free > 0 && this.#queue.size === 0 && mayGrant()) return Promise.resolve(this.#take());
    // Those for whom there is a place, once the loop has turned, take no room in the queue.
    if (this.#queue.size - free < queueMax) {
      const place = this.#queue.wait(signal);
      this.#dispatch();
      return place;
    }
    const message = `${this.#inside} inside and ${this.#queue.size} waiting: the gate is full`;
    return rejectSoon(new SpillwayError('GATE_FULL', message));
  }

  /** A place at once, or none; nobody who waits is overtaken. */
  tryEnter(): Disposable | undefined {
    this.#dispatch(true);
    return this.#inside < this.#options.limit ? this.#take() : undefined;
  }

  #take(): Disposable {
    this.#inside += 1;
    return new Place(this.#leave);
  }

  readonly #leave = (): void => {
    this.#inside -= 1;
    this.#dispatch();
  };

  /** A place passes straight to the oldest waiter, so that no newcomer slips in between. */
  #dispatch(regardless = false): void {
    while (this.#queue.size > 0 && this.#inside < this.#options.limit) {
      if (!(regardless || mayGrant())) {
        if (!this.#yielding) nextTurn(this.#resume);
        this.#yielding = true;
        return;
      }
      this.#queue.wake(this.#take());
    }
  }

  readonly #resume = (): void => {
    this.#yielding = false;
    this.#dispatch();
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
