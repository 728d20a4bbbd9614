import { leaveOnAbort, untilAborted } from '../base/abort.ts';
import { check, checkInteger } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { ownSignal } from '../base/deadline.ts';
import type { SpillwayError } from '../base/errors.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import type { Task } from '../base/task.ts';
import { tellRefusal } from '../base/tell.ts';
import { Meter, type Refusal } from '../meter/meter.ts';
import { isTurnTaken, mayGrant, takeTurn } from '../wait/turn-budget.ts';
import { entering } from '../wait/wait-queue.ts';
import { Dispatcher, LoopTime, type Server } from './dispatcher.ts';
import {
  type LaneOptions,
  type LaneRefusal,
  type LaneStats,
  laneRefusal,
  limitMaxOf,
  settleLane,
} from './options.ts';
import { Pace } from './pace.ts';
import {
  checkEntry,
  type Entry,
  goneBy,
  holdDuring,
  LanePermit,
  type MaybePermit,
  type Permit,
  type PermitGiver,
  signalFor,
} from './permit.ts';
import { Permits } from './permits.ts';
import { LaneQueue } from './queue.ts';

type LaneServer = Server & { readonly lane: Lane };
const plainEntry: Entry = {};

/**
 * Enters a lane as `enter` does, but returns a permit with a `refusal` where that throws. V8 never
 * compiles a function that always throws: a sixth of an overloaded server's time (2026-11).
 */
export let admit: (lane: Pick<Lane, 'enter'>, entry: Entry) => MaybePermit | Promise<Permit>;

/**
 * A class of work: its permits, bounded queue, deadline and numbers. A lane with a `parent` borrows
 * the parent's permits up to its own limit; no other lane can take those guaranteed to it.
 */
export class Lane implements Part, AsyncDisposable {
  readonly name: string;
  readonly parent: Lane | undefined;
  /** Milliseconds from arrival to the end of the work. */
  readonly deadlineMs: number;
  readonly #clock: Clock;
  /** Finds how much of the limit the lane's own callers may use, unless the limit is fixed. */
  readonly #pace: Pace | undefined;
  #limitMax: number;
  readonly #queueMax: number;
  readonly #permits: Permits<LaneServer>;
  /** Shared by all lanes of the tree. */
  readonly #dispatcher: Dispatcher;
  readonly #giver: PermitGiver;
  readonly #meter: Meter;
  readonly #queue: LaneQueue;
  readonly #loopTime = new LoopTime();
  readonly #onRefuse: LaneOptions['onRefuse'];
  readonly #closing: Closing;
  #isClosed = false;
  readonly #empty: PromiseWithResolvers<void> = Promise.withResolvers<void>();

  static {
    admit = (lane, entry) => (#permits in lane ? lane.#admit(entry) : entering(lane, entry));
  }

  constructor(options: LaneOptions) {
    const settled = settleLane(options, (lane) => #permits in lane);
    const { parent, limit, guaranteed, deadlineMs, waitMsMax, codel, random } = settled;
    const above = parent === undefined ? undefined : parent.#permits;
    const promised = above === undefined ? guaranteed === 0 : above.canPromise(guaranteed);
    check(promised, 'guaranteed', 'permits that the parent has not promised yet', guaranteed);
    this.name = options.name;
    this.parent = parent;
    const clock = options.clock ?? (parent === undefined ? systemClock : parent.#clock);
    this.#clock = clock;
    this.deadlineMs = deadlineMs;
    if (typeof limit === 'number') this.#pace = new Pace(limit, deadlineMs);
    this.#limitMax = limitMaxOf(limit);
    this.#queueMax = options.queueMax;
    const rule = typeof limit === 'object' && 'size' in limit ? limit : undefined;
    const sizes = { limit: rule, sizeMax: this.#limitMax, guaranteed, parent: above };
    const server: LaneServer = {
      lane: this,
      nextWeight: this.#nextWeight,
      keepTurn: (now) => this.#queue.reserve(now),
      serveNext: this.#serveNext,
      trimAll: this.#trimAll,
      refuseMisfits: this.#refuseMisfits,
    };
    this.#permits = new Permits(server, sizes);
    this.#dispatcher = parent ? parent.#dispatcher : new Dispatcher(clock, this.#permits);
    this.#meter = new Meter(clock.now());
    const ways = { leave: this.#leave, abandon: this.#abandon };
    this.#giver = { name: this.name, clock, deadlineMs, ...ways };
    this.#queue = new LaneQueue({ clock, waitMsMax, codel, random, onDue: this.#expire });
    this.#onRefuse = settled.onRefuse;
    this.#closing = new Closing(clock, (limit) =>
      untilAborted(this.#empty.promise, limit).catch(() => this.#refuseAll('closed')),
    );
    if (guaranteed > 0) this.#dispatcher.root.owner.refuseMisfits();
    if (parent !== undefined && !parent.ready) void this.close();
  }

  get stats(): LaneStats {
    return {
      kind: 'lane',
      name: this.name,
      parent: this.parent?.name,
      limit: Math.min(this.#permits.size, this.#pace?.size ?? Infinity),
      inside: this.#permits.inside,
      waiting: this.#queue.size,
      ...this.#meter.stats(this.#clock.now()),
      lanes: this.#permits.children.map((child) => child.owner.lane.stats),
    };
  }

  get ready(): boolean {
    return !this.#isClosed;
  }

  /**
   * Gives a permit: at once if one is free, or else by a promise that rejects at the deadline, with
   * the signal's reason, or when the lane refuses the waiter. A refusal on arrival is thrown.
   */
  enter(entry: Entry = plainEntry): Permit | Promise<Permit> {
    const permit = this.#admit(entry);
    if (permit instanceof Promise || permit.refusal === undefined) return permit;
    throw permit.refusal;
  }

  #admit(entry: Entry): LanePermit | Promise<Permit> {
    const refusal = this.#arrive(entry);
    const now = this.#clock.now();
    const permit = new LanePermit(this.#giver, entry, now);
    if (refusal !== undefined) return this.#turnAway(permit, refusal);
    const isTry = this.#pace?.mayTry(permit, now) === true;
    // A try may not wait for the next turn of the event loop, so it ignores the budget of this one.
    const isTurn = !(this.#loopTime.isLong && isTurnTaken());
    const isNext = (isTry || this.#dispatcher.waiting === 0) && isTurn && (mayGrant(now) || isTry);
    if (isNext && this.#tryBegin(permit, now)) return permit;
    if (!this.#canWait(permit, now)) return this.#turnAway(permit, 'late');
    if (isNext && this.#waitersMax() === 0) return this.#turnAway(permit, 'full');
    this.#join(permit, now, false);
    if (permit.ring !== undefined) permit.listen();
    return permit.ring === undefined ? permit : permit.wait();
  }

  /** Gives a permit at once, or none. It overtakes no waiter. */
  tryEnter(entry: Entry = plainEntry): Permit | undefined {
    const refusal = this.#arrive(entry);
    if (refusal !== undefined) {
      this.#meter.refuse(refusal);
      return undefined;
    }
    const now = this.#clock.now();
    const permit = new LanePermit(this.#giver, entry, now);
    if (this.#dispatcher.waiting === 0) {
      if (this.#tryBegin(permit, now)) return permit;
    } else if (this.#canWait(permit, now)) {
      this.#join(permit, now, true);
      // A waiter that was refused meanwhile has been counted.
      if (!this.#remove(permit)) return permit.refusal === undefined ? permit : undefined;
    }
    this.#meter.refuse('full');
    return undefined;
  }

  /** Runs the task; rejects at an abort or the deadline, but holds the permit until it ends. */
  async run<T>(task: Task<T>, entry?: Entry): Promise<T> {
    const permit = await entering(this, entry);
    const signal = ownSignal(signalFor(permit), entry?.signal);
    return leaveOnAbort(holdDuring(permit, task, signal), signal, entry?.signal);
  }

  /**
   * Changes a limit that was given as a number. A larger one lets waiters in at once: all that fit,
   * or up to twice the old size if the lane measures it. A smaller one ends no work.
   */
  resize(limit: number): void {
    const isPlain = this.#permits.limit === undefined;
    check(isPlain, 'Lane.resize', 'of a lane whose limit is a number', this.name);
    checkInteger('Lane.resize: limit', limit, Math.max(1, this.#permits.promised));
    const now = this.#clock.now();
    this.#limitMax = limit;
    this.#pace?.resize(limit, now);
    this.#permits.resize(limit, limit);
    this.#refuseMisfits();
    if (!this.#dispatcher.isYielding) while (this.#trim(now));
  }

  /** Lets nobody into this lane and those inside until `resume` or `close`. Deadlines go on. */
  pause(): void {
    if (!this.#isClosed) this.#permits.setPaused(true);
  }

  /** Ends a `pause`. */
  resume(): void {
    this.#permits.setPaused(false);
    this.#dispatcher.dispatch(this.#clock.now());
  }

  /** Refuses all waiters of this lane and of those inside with `CLEARED`. */
  clear(): void {
    this.#refuseAll('cleared');
    this.#dispatcher.dispatch(this.#clock.now());
  }

  /**
   * Refuses new callers of this lane and of those inside; resolves when the last one has left.
   * After `withinMs` those that still wait are refused, and work goes on to its own deadline.
   */
  close(options: CloseOptions = {}): Promise<void> {
    if (!this.#isClosed) this.#beginClose();
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Weight of the next waiter of this lane; 0 if nobody waits or the size it found is in use. */
  readonly #nextWeight = (now: number): number => {
    if (this.#loopTime.isLong && !this.#dispatcher.seeksComputing) return 0;
    const next = this.#queue.next(now);
    if (next === undefined) return 0;
    const pace = this.#pace;
    if (pace === undefined || pace.hasRoom(next)) return next.weight;
    const { weight, priority } = next;
    if (weight > 1 && pace.hasRoom({ weight: 1, priority })) this.#queue.reserve(now);
    return 0;
  };

  /** Takes a permit back and passes it on to the next waiter. */
  readonly #leave = (permit: LanePermit): void => {
    const now = this.#clock.now();
    const { outcome, isWhole, startedAt } = permit;
    const ending = outcome === 'overloaded' ? 'failed' : outcome;
    this.#meter.finish(now, ending, isWhole ? now - startedAt : undefined);
    this.#permits.observe(permit, now);
    this.#permits.give(permit.weight);
    const isLong = permit.loopMs > 0 && this.#loopTime.learn(permit.loopMs);
    if (isLong) this.#dispatcher.hasComputing = true;
    if (this.#pace?.leave(permit, now)) this.#queue.adapt(this.#pace.needMs, this.#pace.patienceMs);
    if (this.#dispatcher.waiting > 0) this.#dispatcher.dispatch(now);
    if (this.#isClosed) this.#settleClose();
  };

  /** Counts an arrival; gives the reason for which it may neither enter nor wait, if any. */
  #arrive(entry: Entry): Refusal | undefined {
    const weight = entry === plainEntry ? 1 : checkEntry(entry, this.#limitMax);
    this.#meter.arrive();
    if (this.#isClosed) return 'closed';
    return goneBy(entry, this.#clock) ?? (this.#permits.canEverFit(weight) ? undefined : 'full');
  }

  #turnAway(permit: LanePermit, reason: Refusal): LanePermit {
    if (reason === 'aborted') this.#meter.refuse(reason);
    permit.refusal = reason === 'aborted' ? permit.entry.signal?.reason : this.#refusal(reason);
    return permit;
  }

  /** Lets the caller in if there is room and it can end in time. Nobody waits. */
  #tryBegin(permit: LanePermit, now: number): boolean {
    if (this.#pace?.mayBegin(permit, now) === false) return false;
    if (!this.#permits.tryTake(permit.weight)) return false;
    this.#pace?.take(permit, now);
    if (this.#loopTime.isLong) takeTurn();
    this.#meter.start(now, 0);
    return true;
  }

  #canWait(permit: LanePermit, now: number): boolean {
    return this.#pace?.canWait(permit, now, this.#queue, this.#dispatcher.isYielding) ?? true;
  }

  #join(permit: LanePermit, now: number, isForced: boolean): void {
    this.#queue.push(permit);
    this.#permits.wait(1);
    this.#dispatcher.dispatch(now, isForced);
    if (!(isForced || this.#dispatcher.isYielding)) while (this.#trim(now, permit));
  }

  #remove(waiter: LanePermit): boolean {
    const isHere = this.#queue.remove(waiter);
    if (isHere) this.#permits.wait(-1);
    return isHere;
  }

  readonly #abandon = (waiter: LanePermit): void => {
    const now = this.#clock.now();
    this.#meter.refuse('aborted');
    this.#pace?.giveUp(now - waiter.arrivedAt);
    this.#remove(waiter);
    // A waiter that needed many permits may have kept those behind it waiting.
    this.#dispatcher.dispatch(now);
    if (this.#isClosed) this.#settleClose();
  };

  #drop(waiter: LanePermit, reason: LaneRefusal): void {
    // A hook that was told of another refusal may have cleared the queue.
    if (this.#remove(waiter)) waiter.refuse(this.#refusal(reason));
  }

  /** Lets the next waiter in, or refuses it if its time is over. */
  readonly #serveNext = (now: number): void => {
    const waiter = this.#queue.next(now) as LanePermit;
    const reason = this.#queue.lateness(waiter, now);
    if (reason !== undefined) {
      this.#drop(waiter, reason);
      return;
    }
    this.#queue.take(waiter, now);
    this.#permits.takeTurn(waiter.weight);
    this.#pace?.take(waiter, now);
    if (this.#loopTime.isLong) takeTurn();
    this.#meter.start(now, now - waiter.arrivedAt);
    waiter.grant(now);
  };

  readonly #trimAll = (now: number): void => {
    while (this.#trim(now));
    for (const child of this.#permits.children) child.owner.trimAll(now);
  };

  /** Callers that may wait: `queueMax`, and as many as the size is below the limit. */
  #waitersMax(): number {
    const size = this.#pace?.size ?? this.#limitMax;
    const used = this.#loopTime.isLong ? Math.min(size, this.#permits.inside) : size;
    return this.#queueMax + this.#limitMax - used;
  }

  /** Refuses one waiter if the queue is full, or if the last one to be served waits in vain. */
  #trim(now: number, newcomer?: LanePermit): boolean {
    const queue = this.#queue;
    const pace = queue.isStanding(now) ? this.#pace : undefined;
    const isFull = queue.size > this.#waitersMax();
    if (!isFull && pace === undefined) return false;
    const last = queue.surplus(newcomer, now);
    if (last === undefined) return false;
    const isVain = pace !== undefined && queue.size > pace.standingMax(queue.leftMs(last, now));
    if (isFull || isVain) this.#drop(last, isFull ? 'full' : 'late');
    return isFull || isVain;
  }

  /** Refuses waiters that can never fit, after permits were promised to a child or taken away. */
  readonly #refuseMisfits = (): void => {
    for (const waiter of [...this.#queue]) {
      if (!this.#permits.canEverFit(waiter.weight)) this.#drop(waiter, 'full');
    }
    for (const child of this.#permits.children) child.owner.refuseMisfits();
    // Others that stood behind them may fit.
    if (this.#dispatcher.waiting > 0) this.#dispatcher.dispatch(this.#clock.now());
  };

  readonly #expire = (now: number): void => {
    for (const [waiter, reason] of this.#queue.overdue(now)) this.#drop(waiter, reason);
    this.#dispatcher.dispatch(now);
    if (this.#isClosed) this.#settleClose();
  };

  #refusal(reason: LaneRefusal): SpillwayError {
    this.#meter.refuse(reason);
    const waiting = this.#queue.size;
    const { inside } = this.#permits;
    const size = this.#pace?.size ?? Math.max(1, this.#permits.size);
    // While no work has ended, all that is known is that the deadline ends what is here now.
    const retryAfterMs = this.#meter.retryAfterMs(waiting, size) ?? this.deadlineMs;
    const error = laneRefusal(reason, { name: this.name, inside, waiting, retryAfterMs });
    return tellRefusal(this, error, this.#onRefuse);
  }

  #beginClose(): void {
    this.#isClosed = true;
    for (const child of [...this.#permits.children]) child.owner.lane.#beginClose();
    this.resume();
    this.#settleClose();
  }

  #refuseAll(reason: LaneRefusal): void {
    for (const waiter of [...this.#queue]) this.#drop(waiter, reason);
    for (const child of [...this.#permits.children]) child.owner.lane.#refuseAll(reason);
    if (this.#isClosed) this.#settleClose();
  }

  #settleClose(): void {
    if (this.#permits.inside > 0 || this.#permits.waiting > 0) return;
    this.#permits.leave();
    this.#empty.resolve();
    if (this.parent && !this.parent.ready) this.parent.#settleClose();
  }
}
