import type { Clock } from '../base/clock.ts';
import { isTurnTaken, mayGrant, nextTurn, whenTurnIsFree } from '../wait/turn-budget.ts';
import type { Claimant, Permits } from './permits.ts';

/** The side of a lane that lets its own waiters in. */
export interface Server extends Claimant {
  /** Lets the next waiter in, or sends it away if its time is over. */
  serveNext(now: number): void;
  /** Sends away those who are too many in the queue, here and in the lanes inside. */
  trimAll(now: number): void;
  /** Sends away the waiters that fit no more, after a new child was promised permits. */
  refuseMisfits(): void;
}

/** Milliseconds of the event loop, in the mean of the last ends, from which on work computes. */
const computingMs = 2;
/** Most that one end counts: a pause of the process is no work. */
const loopMsMost = 8;
const loopWeight = 1 / 8;
const firstWeight = 1 / 2;

/** The time for which the work of a lane holds the event loop, by the last ends. */
export class LoopTime {
  #ms = 0;

  get isLong(): boolean {
    return this.#ms >= computingMs;
  }

  /** Learns from an end; true if the time is long. */
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
  /** True once the work of a lane of the tree computed. */
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

  /** True while waiters whose work computes are looked for, besides the others. */
  get seeksComputing(): boolean {
    return this.#seeksComputing;
  }

  /** Number of waiters in the whole tree. */
  get waiting(): number {
    return this.root.waiting;
  }

  /** Lets in all who may enter now, within the budget of a turn unless `isForced`. */
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
   * Finds the lane whose next waiter may enter now. Work that computes comes last, one at a time:
   * so what comes meanwhile is read and waits here, and not in the kernel.
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
