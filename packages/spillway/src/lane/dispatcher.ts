import type { Clock } from '../base/clock.ts';
import { isTurnTaken, mayGrant, nextTurn, whenTurnIsFree } from '../wait/turn-budget.ts';
import type { Claimant, Permits } from './permits.ts';

/** The side of a lane that lets its own waiters in. */
export interface Server extends Claimant {
  /** Lets the next waiter in, or refuses it if its time is over. */
  serveNext(now: number): void;
  /** Refuses the waiters that exceed the queue, here and in the lanes inside. */
  trimAll(now: number): void;
  /** Refuses waiters that can never fit any more, here and in the lanes inside. */
  refuseMisfits(): void;
}

/** Mean milliseconds on the event loop from which on work counts as computing. */
const computingMs = 2;
/** Most that one piece of work counts: a pause of the process is no work. */
const loopMsMost = 8;
const loopWeight = 1 / 8;
const firstWeight = 1 / 2;

/** The mean time for which the last work of a lane held the event loop. */
export class LoopTime {
  #ms = 0;

  get isLong(): boolean {
    return this.#ms >= computingMs;
  }

  /** Adds the time of one piece of work; true if the mean is long. */
  learn(ms: number): boolean {
    const weight = this.#ms === 0 ? firstWeight : loopWeight;
    this.#ms += (Math.min(ms, loopMsMost) - this.#ms) * weight;
    return this.isLong;
  }
}

/** Lets the waiters of a tree of lanes in, within the budget of each turn of the event loop. */
export class Dispatcher {
  readonly #clock: Clock;
  readonly root: Permits<Server>;
  /** True while grants are put off until the event loop has turned. */
  #isYielding = false;
  /** True once work of any lane of the tree computed. */
  hasComputing = false;
  #seeksComputing = false;
  /** True while work that computes waits for its turn of the event loop. */
  #isTurnAsked = false;

  constructor(clock: Clock, root: Permits<Server>) {
    this.#clock = clock;
    this.root = root;
  }

  get isYielding(): boolean {
    return this.#isYielding;
  }

  /** True while the search for the next waiter includes those whose work computes. */
  get seeksComputing(): boolean {
    return this.#seeksComputing;
  }

  /** Number of waiters in the whole tree. */
  get waiting(): number {
    return this.root.waiting;
  }

  /** Lets in all waiters that fit now, within the budget of this turn unless `isForced`. */
  dispatch(now: number, isForced = false): void {
    if (this.#isYielding && !isForced) return;
    for (let next = this.#next(now); next; next = this.#next(now)) {
      if (!(isForced || mayGrant(now))) {
        this.#isYielding = true;
        nextTurn(this.#onTurn);
        return;
      }
      next.owner.serveNext(now);
    }
  }

  /**
   * Finds the lane whose next waiter may enter now. Work that computes comes last, one at a time,
   * so that requests that come meanwhile are read and wait here, not in the kernel.
   */
  #next(now: number): Permits<Server> | undefined {
    const next = this.root.next(now);
    if (next !== undefined || !this.hasComputing) return next;
    this.#seeksComputing = true;
    const computing = this.root.next(now);
    this.#seeksComputing = false;
    if (computing === undefined || !isTurnTaken()) return computing;
    if (!this.#isTurnAsked) whenTurnIsFree(this.#onTurn);
    this.#isTurnAsked = true;
    return undefined;
  }

  readonly #onTurn = (): void => {
    const now = this.#clock.now();
    this.#isYielding = false;
    this.#isTurnAsked = false;
    this.dispatch(now);
    if (!this.#isYielding) this.root.owner.trimAll(now);
  };
}
