import type { Limit, Sample } from '../limit/limit.ts';

/** The part of a lane that its {@link Permits} call. */
export interface Claimant {
  /** Weight of the next waiter; 0 when nobody waits. */
  nextWeight(now: number): number;
  /** Lets no lighter waiter of this lane take what its next one needs. */
  keepTurn(now: number): void;
}

/**
 * The accounting of a tree of lanes. A permit taken in one lane is taken in all lanes above it.
 *
 *     size  ├──────────── free ────────────┼──── promised to children ────┤
 *           ├─ borrowed ─┼─── available ───┤
 *
 * Invariant, for each node: borrowed = permits taken beyond what is promised. Direct callers take
 * free permits; a child takes those promised to it first, and borrows free ones of its parent for
 * the rest. Nobody may take a permit unless, in each lane up to the root, what it borrows there is
 * available: so borrowed <= size - promised, and a promised permit is never lent.
 *
 * A node may itself be promised permits by its parent. What it does not promise on to its own
 * children covers the first of its borrowed ones; only the rest is borrowed from the parent.
 */
export class Permits<Owner extends Claimant> {
  readonly owner: Owner;
  readonly parent: Permits<Owner> | undefined;
  /** The rule that finds the size, if there is one. */
  readonly limit: Limit | undefined;
  readonly #children: Permits<Owner>[] = [];
  /** Its place among its parent's children. */
  #index = 0;
  #size: number;
  /** Permits that may be in use now: the size, or 0 while this node or one above is paused. */
  #room: number;
  #isPaused = false;
  #isHeld = false;
  #sizeMax: number;
  /** Permits that its parent keeps for this node: its own guarantee, or its children's sum. */
  #guaranteed: number;
  /** The guarantee it was made with. */
  readonly #ownGuarantee: number;
  #guaranteedToChildren = 0;
  #inside = 0;
  #borrowed = 0;
  #waiting = 0;
  /** Index of the child whose turn it is; the number of children stands for direct callers. */
  #turn = 0;

  constructor(
    owner: Owner,
    options: {
      /** Finds the size. @default it is `sizeMax` */
      readonly limit: Limit | undefined;
      readonly sizeMax: number;
      readonly guaranteed: number;
      readonly parent: Permits<Owner> | undefined;
    },
  ) {
    this.owner = owner;
    this.parent = options.parent;
    this.limit = options.limit;
    this.#size = options.limit?.size ?? options.sizeMax;
    this.#room = this.#size;
    this.#sizeMax = options.sizeMax;
    this.#ownGuarantee = options.guaranteed;
    this.#guaranteed = options.guaranteed;
    if (this.parent !== undefined) this.parent.#adopt(this);
  }

  /** Permits that may be in use now; 0 while paused. */
  get size(): number {
    return this.#room;
  }

  /** Permits promised to children. */
  get promised(): number {
    return this.#guaranteedToChildren;
  }

  get inside(): number {
    return this.#inside;
  }

  /** Number of waiters here and in all lanes below. */
  get waiting(): number {
    return this.#waiting;
  }

  get children(): readonly Permits<Owner>[] {
    return this.#children;
  }

  /** True if that many permits can be guaranteed to a child, here and in all lanes above. */
  canPromise(permits: number): boolean {
    let promised = permits;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (node.#guaranteedToChildren + promised > node.#sizeMax) return false;
      promised = Math.max(0, node.#guaranteedToChildren + promised - node.#guaranteed);
    }
    return true;
  }

  /** True if a caller of that weight fits while nobody else is inside. */
  canEverFit(weight: number): boolean {
    let borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (borrowing > node.#sizeMax - node.#guaranteedToChildren) return false;
      borrowing = Math.max(0, borrowing - node.#covered());
      if (borrowing === 0) return true;
    }
    return true;
  }

  /** Passes a sample to the limits that find the size, here and in all lanes above. */
  observe(work: Omit<Sample, 'endedAt' | 'inside'>, endedAt: number): void {
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (node.limit === undefined) continue;
      const { outcome, isWhole, startedAt } = work;
      node.limit.observe({ outcome, isWhole, startedAt, endedAt, inside: node.#inside });
      node.resize(node.limit.size);
    }
  }

  resize(size: number, sizeMax: number = this.#sizeMax): void {
    this.#size = size;
    this.#sizeMax = sizeMax;
    if (!this.#isHeld) this.#room = size;
  }

  /** Pauses or resumes this node and all below, except those paused on their own. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#open();
  }

  #open(): void {
    const isHeldAbove = this.parent === undefined ? false : this.parent.#isHeld;
    this.#isHeld = this.#isPaused || isHeldAbove;
    this.#room = this.#isHeld ? 0 : this.#size;
    for (const child of this.#children) child.#open();
  }

  /** Takes that many here and in all lanes above, if they are available and nobody waits. */
  tryTake(weight: number): boolean {
    let borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (!node.#hasFree(borrowing)) return false;
      if (node.parent !== undefined) borrowing = node.#overflow(borrowing);
    }
    borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      const above = node.parent === undefined ? 0 : node.#overflow(borrowing);
      node.#inside += weight;
      node.#borrowed += borrowing;
      borrowing = above;
    }
    return true;
  }

  /** Takes permits for a waiter that `next` has found; the turn passes on to the others. */
  takeTurn(weight: number): void {
    let turn = this.#children.length;
    let borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      const turns = node.#children.length + 1;
      if (borrowing > 0 && turns > 1) node.#turn = (turn + 1) % turns;
      const above = node.parent === undefined ? 0 : node.#overflow(borrowing);
      node.#inside += weight;
      node.#borrowed += borrowing;
      node.#waiting -= 1;
      borrowing = above;
      turn = node.#index;
    }
  }

  give(weight: number): void {
    let returning = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      node.#inside -= weight;
      node.#borrowed -= returning;
      if (node.parent !== undefined) returning = node.#overflow(returning);
    }
  }

  /** Counts one waiter more, or one less, here and in all lanes above. */
  wait(change: 1 | -1): void {
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      node.#waiting += change;
    }
  }

  /** Leaves the tree, with nobody inside or waiting; its guarantee is free again. */
  leave(): void {
    const { parent } = this;
    if (parent === undefined || parent.#children[this.#index] !== this) return;
    const last = parent.#children.pop() as Permits<Owner>;
    if (last !== this) {
      last.#index = this.#index;
      parent.#children[this.#index] = last;
    }
    parent.#promise(-this.#guaranteed);
  }

  #adopt(child: Permits<Owner>): void {
    child.#index = this.#children.length;
    this.#children.push(child);
    this.#turn = 0;
    this.#promise(child.#guaranteed);
    child.#open();
  }

  /**
   * Promises that many more, or fewer, to children. A promise made below has to be kept above as
   * well, or it is none.
   */
  #promise(change: number): void {
    let rest = change;
    let borrowing = 0;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (rest === 0 && borrowing === 0) return;
      const before = node.#overflowing();
      const guaranteed = node.#guaranteed;
      node.#borrowed += borrowing;
      node.#guaranteedToChildren += rest;
      node.#guaranteed = Math.max(node.#ownGuarantee, node.#guaranteedToChildren);
      rest = node.#guaranteed - guaranteed;
      borrowing = node.#overflowing() - before;
    }
  }

  /** Permits beyond its promises that this node may use without borrowing from its parent. */
  #covered(): number {
    return this.#guaranteed - this.#guaranteedToChildren;
  }

  /** Permits that this node has borrowed from its parent. */
  #overflowing(): number {
    return Math.max(0, this.#borrowed - this.#covered());
  }

  /** Part of the next free permits taken here that would be borrowed from the parent. */
  #overflow(taking: number): number {
    return Math.max(0, taking - Math.max(0, this.#covered() - this.#borrowed));
  }

  #hasFree(weight: number): boolean {
    if (weight === 0) return true;
    if (weight <= this.#room - this.#guaranteedToChildren - this.#borrowed) return true;
    // A limit may have shrunk below its promises or below the weight of one caller. Alone, that
    // caller still gets in: with nobody inside the limit would see no sample to grow by.
    return this.#inside === 0 && !this.#isHeld && this.#size < this.#sizeMax;
  }

  /**
   * Finds the lane whose next waiter may enter now, here or below. Children and direct callers take
   * turns. A waiter that needs more permits than are available keeps its turn, so that light ones
   * cannot overtake a heavy one for ever; only waiters within their guarantee pass it. Without
   * `mayBorrow` only waiters that borrow nothing from the parent are found.
   */
  next(now: number, mayBorrow = true): Permits<Owner> | undefined {
    // Checking its own numbers first costs less than finding the next waiter.
    if (this.#waiting === 0) return undefined;
    if (this.#children.length === 0) {
      if (!this.#mayTake(1, mayBorrow)) return undefined;
      const weight = this.owner.nextWeight(now);
      if (weight > 0 && this.#mayTake(weight, mayBorrow)) return this;
      if (weight > 1) this.owner.keepTurn(now);
      return undefined;
    }
    const turns = this.#children.length + 1;
    let isHeld = false;
    for (let i = 0; i < turns; i += 1) {
      const child = this.#children[(this.#turn + i) % turns];
      if (!isHeld) {
        const found = child === undefined ? this : child.next(now);
        let borrowing = found === undefined ? 0 : found.owner.nextWeight(now);
        if (found === undefined || borrowing === 0) continue;
        for (let node = found; node !== this; node = node.parent as Permits<Owner>) {
          borrowing = node.#overflow(borrowing);
        }
        if (this.#mayTake(borrowing, mayBorrow)) return found;
        if (borrowing > 1 && this.#hasFree(1)) found.owner.keepTurn(now);
        isHeld = true;
      }
      const within = child?.next(now, false);
      if (within !== undefined) return within;
    }
    return undefined;
  }

  #mayTake(weight: number, mayBorrow: boolean): boolean {
    return this.#hasFree(weight) && (mayBorrow || this.#overflow(weight) === 0);
  }
}
