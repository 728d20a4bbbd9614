import { untilAborted } from '../base/abort.ts';
import { check, checkInteger } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { SpillwayError } from '../base/errors.ts';
import type { Task } from '../base/task.ts';
import type { Limit } from '../limit/limit.ts';
import { Meter } from '../meter/meter.ts';
import { priorityMax } from '../wait/fair-queue.ts';
import { rejectSoon } from '../wait/reject-soon.ts';
import { mayGrant, nextTurn } from '../wait/turn.ts';
import { checkLaneOptions, type LaneOptions } from './options.ts';
import { holdDuring, LanePermit, type Permit, type PermitGiver } from './permit.ts';
import { type Claimant, Permits } from './permits.ts';
import { type Entry, LaneQueue } from './queue.ts';
import { type LaneRefusal, laneRefusal } from './refusal.ts';
import type { LaneStats } from './stats.ts';

interface LaneClaimant extends Claimant {
  readonly lane: Lane;
}

const plainEntry: Entry = {};

/**
 * A class of work: its permits, its bounded queue, its deadline and its numbers. Lanes nest: one
 * with a `parent` borrows the parent's permits, never past its own limit, and what is guaranteed
 * to it nobody else can take.
 */
export class Lane implements AsyncDisposable {
  readonly name: string;
  /** Milliseconds from arrival to the end of the work. */
  readonly deadlineMs: number;
  readonly #clock: Clock;
  readonly #limit: Limit | undefined;
  readonly #weightMax: number;
  readonly #queueMax: number;
  readonly #root: Lane;
  readonly #permits: Permits<LaneClaimant>;
  /** What its permits know of this lane. */
  readonly #giver: PermitGiver;
  readonly #meter: Meter;
  readonly #queue: LaneQueue;
  /** In the root: true while grants are put off until the event loop has turned. */
  #yielding = false;
  /** Whom `nextWeight` has just found. */
  #next: LanePermit | undefined;
  #closed: PromiseWithResolvers<void> | undefined;

  constructor(options: LaneOptions) {
    checkLaneOptions(options);
    const { parent, limit, guaranteed = 0, share = 1 } = options;
    const above = parent === undefined ? undefined : parent.#permits;
    const promised = above === undefined ? guaranteed === 0 : above.canPromise(guaranteed);
    check(promised, 'guaranteed', 'permits that the parent has not promised yet', guaranteed);
    this.name = options.name;
    this.#clock = options.clock ?? (parent === undefined ? systemClock : parent.#clock);
    this.deadlineMs = options.deadlineMs;
    this.#limit = typeof limit === 'number' ? undefined : limit;
    this.#weightMax = typeof limit === 'number' ? limit : limit.sizeMax;
    this.#queueMax = options.queueMax;
    this.#root = parent === undefined ? this : parent.#root;
    const size = typeof limit === 'number' ? limit : limit.size;
    const claimant = { lane: this, nextWeight: this.#nextWeight };
    this.#permits = new Permits(claimant, { size, guaranteed, share, parent: above });
    this.#meter = new Meter(this.#clock.now());
    const times = { clock: this.#clock, deadlineMs: this.deadlineMs };
    this.#giver = { ...times, leave: this.#leave, abandon: this.#abandon };
    const { codel, random } = options;
    this.#queue = new LaneQueue({ ...times, codel, random, onDue: this.#expire });
    if (parent !== undefined && parent.#closed !== undefined) void this.close();
  }

  get stats(): LaneStats {
    return {
      name: this.name,
      limit: this.#permits.size,
      inside: this.#permits.inside,
      waiting: this.#permits.waiting,
      ...Meter.stats(this.#meters(), this.#clock.now()),
      lanes: this.#permits.children.map((child) => child.owner.lane.stats),
    };
  }

  /** Waits for a permit; rejects when refused, at the deadline, or with the signal's reason. */
  enter(entry: Entry = plainEntry): Promise<Permit> {
    const now = this.#arrive(entry);
    if (entry.signal?.aborted) {
      this.#meter.refuse('aborted');
      return rejectSoon(entry.signal.reason);
    }
    const permit = this.#enterAtOnce(entry, now) ?? this.#queueUp(entry, now);
    if (permit.ring !== undefined) return this.#wait(permit);
    return permit.refusal === undefined ? Promise.resolve(permit) : rejectSoon(permit.refusal);
  }

  /** Like `enter`, but a free permit comes at once, and a refusal is thrown at once. */
  pass(entry: Entry = plainEntry): Permit | Promise<Permit> {
    const now = this.#arrive(entry);
    const permit = this.#enterAtOnce(entry, now) ?? this.#queueUp(entry, now);
    if (permit.ring !== undefined) return this.#wait(permit);
    if (permit.refusal !== undefined) throw permit.refusal;
    return permit;
  }

  #enterAtOnce(entry: Entry, now: number): LanePermit | undefined {
    const mayEnter = this.#closed === undefined && this.#root.#permits.waiting === 0;
    if (!mayEnter || !mayGrant(now) || !this.#permits.tryTake(entry.weight ?? 1)) return undefined;
    return this.#begin(entry, now);
  }

  #begin(entry: Entry, now: number): LanePermit {
    this.#meter.start(now, 0);
    return new LanePermit(this.#giver, entry, now);
  }

  /** Stands in the queue, unless its turn came after all or it was refused. */
  #queueUp(entry: Entry, now: number): LanePermit {
    const permit = new LanePermit(this.#giver, entry, now);
    if (this.#closed !== undefined) permit.refuse(this.#refusal('closed'));
    else this.#join(permit, now);
    return permit;
  }

  /** Only who really waits is asked for its signal, which may have to be made first. */
  #wait(permit: LanePermit): Promise<Permit> {
    const { signal } = permit.entry;
    if (!signal?.aborted) return permit.wait();
    this.#abandon(permit);
    return rejectSoon(signal.reason);
  }

  /** A permit at once, or none; nobody who waits is overtaken. */
  tryEnter(entry: Entry = plainEntry): Permit | undefined {
    const now = this.#arrive(entry);
    if (entry.signal?.aborted || this.#closed !== undefined) {
      this.#meter.refuse(this.#closed === undefined ? 'aborted' : 'closed');
      return undefined;
    }
    if (this.#root.#permits.waiting === 0) {
      if (this.#permits.tryTake(entry.weight ?? 1)) return this.#begin(entry, now);
    } else {
      const permit = new LanePermit(this.#giver, entry, now);
      this.#join(permit, now, true);
      if (permit.ring === undefined && permit.refusal === undefined) return permit;
      this.#remove(permit);
    }
    this.#meter.refuse('full');
    return undefined;
  }

  /**
   * Runs the task inside. The caller hears of an abort or the deadline at once; the permit is held
   * until the task has really ended, so that the numbers tell the truth.
   */
  async run<T>(task: Task<T>, entry?: Entry): Promise<T> {
    const permit = await this.enter(entry);
    const { signal } = permit;
    return untilAborted(holdDuring(permit, task, signal), signal);
  }

  /** Lets nobody else in, here and in the lanes inside; resolves when the last has left. */
  close(): Promise<void> {
    this.#closed ??= Promise.withResolvers<void>();
    for (const child of this.#permits.children) void child.owner.lane.close();
    this.#settleClose();
    return this.#closed.promise;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** What the next in line needs, after those whose time is over have been sent away. */
  readonly #nextWeight = (now: number): number => {
    for (let waiter = this.#queue.next(now); waiter; waiter = this.#queue.next(now)) {
      const reason = this.#queue.lateness(waiter, now);
      if (reason === undefined) {
        this.#next = waiter;
        return waiter.weight;
      }
      this.#drop(waiter, reason);
    }
    return 0;
  };

  /** A permit comes back, and passes straight on to whoever is next. */
  readonly #leave = (permit: LanePermit): void => {
    const now = this.#clock.now();
    const { weight, startedAt, outcome } = permit;
    this.#meter.finish(now, now - startedAt);
    if (this.#limit !== undefined) {
      this.#limit.observe({ outcome, startedAt, endedAt: now, inside: this.#permits.inside });
      this.#permits.resize(this.#limit.size);
    }
    this.#permits.give(weight);
    if (this.#root.#permits.waiting > 0) this.#dispatch(now);
    if (this.#closed !== undefined) this.#settleClose();
  };

  #arrive(entry: Entry): number {
    if (entry !== plainEntry) {
      checkInteger('weight', entry.weight ?? 1, 1, this.#weightMax);
      checkInteger('priority', entry.priority ?? 0, 0, priorityMax);
    }
    this.#meter.arrive();
    return this.#clock.now();
  }

  #join(permit: LanePermit, now: number, regardless = false): void {
    this.#queue.push(permit);
    this.#permits.wait(1);
    this.#dispatch(now, regardless);
    if (!(regardless || this.#root.#yielding)) this.#trim(permit);
  }

  #remove(waiter: LanePermit): void {
    if (this.#queue.remove(waiter)) this.#permits.wait(-1);
  }

  readonly #abandon = (waiter: LanePermit): void => {
    this.#meter.refuse('aborted');
    this.#remove(waiter);
    // One that needed many permits may have kept those behind it waiting.
    this.#dispatch(this.#clock.now());
    if (this.#closed !== undefined) this.#settleClose();
  };

  #drop(waiter: LanePermit, reason: 'deadline' | 'full' | 'stale'): void {
    this.#remove(waiter);
    waiter.refuse(this.#refusal(reason));
  }

  /** Lets in whoever may enter now, all over the tree; the budget of a turn puts the rest off. */
  #dispatch(now: number, regardless = false): void {
    const root = this.#root;
    if (root.#yielding && !regardless) return;
    for (let next = root.#permits.next(now); next; next = root.#permits.next(now)) {
      if (!mayGrant(now) && !regardless) {
        root.#yielding = true;
        nextTurn(root.#resume);
        return;
      }
      next.owner.lane.#grantNext(now);
    }
  }

  #grantNext(now: number): void {
    const waiter = this.#next as LanePermit;
    this.#queue.take(waiter);
    this.#permits.takeTurn(waiter.weight);
    this.#meter.start(now, now - waiter.arrivedAt);
    waiter.grant(now);
  }

  readonly #resume = (): void => {
    this.#yielding = false;
    this.#dispatch(this.#clock.now());
    if (!this.#yielding) this.#trimAll();
  };

  #trimAll(): void {
    while (this.#trim());
    for (const child of this.#permits.children) child.owner.lane.#trimAll();
  }

  /** Sends one away if one too many waits. */
  #trim(newcomer?: LanePermit): boolean {
    if (this.#queue.size <= this.#queueMax) return false;
    const surplus = this.#queue.surplus(newcomer);
    if (surplus !== undefined) this.#drop(surplus, 'full');
    return surplus !== undefined;
  }

  readonly #expire = (): void => {
    const now = this.#clock.now();
    for (let waiter = this.#queue.oldest(); waiter; waiter = this.#queue.oldest()) {
      const reason = this.#queue.lateness(waiter, now);
      if (reason === undefined) break;
      this.#drop(waiter, reason);
    }
    this.#dispatch(now);
    if (this.#closed !== undefined) this.#settleClose();
  };

  #refusal(reason: LaneRefusal): SpillwayError {
    this.#meter.refuse(reason);
    const [waiting, { inside, size }] = [this.#queue.size, this.#permits];
    const retryAfterMs = this.#meter.retryAfterMs(waiting, size);
    return laneRefusal(reason, { name: this.name, inside, waiting, retryAfterMs });
  }

  #settleClose(): void {
    if (this.#permits.inside === 0 && this.#permits.waiting === 0) this.#closed?.resolve();
  }

  #meters(): Meter[] {
    return [this.#meter, ...this.#permits.children.flatMap((child) => child.owner.lane.#meters())];
  }
}
