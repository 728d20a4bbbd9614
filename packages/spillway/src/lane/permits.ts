/** Who may want permits: it says how many the next in its line needs, 0 when nobody waits. */
export interface Claimant {
  nextWeight(now: number): number;
}

/**
 * The accounting of a tree of lanes. A permit taken in one is taken in all above it. Some of a
 * lane's permits are promised to children; the others are free: children beyond their promise
 * borrow them, direct callers take them. Of the free ones taken, some are covered by what the lane
 * itself was promised; the rest are borrowed from its parent in turn.
 */
export class Permits<Owner extends Claimant> {
  readonly owner: Owner;
  readonly parent: Permits<Owner> | undefined;
  readonly #children: Permits<Owner>[] = [];
  /** Its place among its parent's children. */
  #index = 0;
  /** How many grants in a row this one has before its siblings have theirs. */
  readonly #share: number;
  #size: number;
  #guaranteed: number;
  #guaranteedToChildren = 0;
  #inside = 0;
  /** How many of the free permits are taken: by children beyond their guarantee, and directly. */
  #borrowed = 0;
  #waiting = 0;
  /** Whose turn it is: an index of children; their number stands for the owner itself. */
  #turn = 0;
  #grantsLeft = 1;

  constructor(
    owner: Owner,
    options: {
      readonly size: number;
      readonly guaranteed: number;
      readonly share: number;
      readonly parent: Permits<Owner> | undefined;
    },
  ) {
    this.owner = owner;
    this.parent = options.parent;
    this.#size = options.size;
    this.#guaranteed = options.guaranteed;
    this.#share = options.share;
    if (this.parent !== undefined) this.parent.#adopt(this);
  }

  get size(): number {
    return this.#size;
  }

  get inside(): number {
    return this.#inside;
  }

  /** How many wait here and in all below. */
  get waiting(): number {
    return this.#waiting;
  }

  get children(): readonly Permits<Owner>[] {
    return this.#children;
  }

  /** Whether a child could be guaranteed that many, here and in all above. */
  canPromise(permits: number): boolean {
    let promised = permits;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (node.#guaranteedToChildren + promised > node.#size) return false;
      promised = Math.max(0, node.#guaranteedToChildren + promised - node.#guaranteed);
    }
    return true;
  }

  resize(size: number): void {
    this.#size = size;
  }

  /** Takes that many here and in all above, if they are free; for when nobody waits. */
  tryTake(weight: number): boolean {
    let borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (!node.#hasFree(borrowing)) return false;
      if (node.parent !== undefined) borrowing = node.#overflow(borrowing);
    }
    this.#take(weight);
    return true;
  }

  #take(weight: number): void {
    let borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      const above = node.parent === undefined ? 0 : node.#overflow(borrowing);
      node.#inside += weight;
      node.#borrowed += borrowing;
      borrowing = above;
    }
  }

  /** Takes permits for one who waited its turn, which passes on to the others. */
  takeTurn(weight: number): void {
    let turn = this.#children.length;
    let borrowing = weight;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      if (borrowing > 0 && node.#children.length > 0) node.#passTurn(turn);
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

  /** Tells all above that so many more, or fewer, wait here. */
  wait(change: 1 | -1): void {
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      node.#waiting += change;
    }
  }

  #adopt(child: Permits<Owner>): void {
    child.#index = this.#children.length;
    this.#children.push(child);
    this.#giveTurn(0);
    // A promise made below has to be kept above as well, or it is none.
    let promised = child.#guaranteed;
    for (let node: Permits<Owner> | undefined = this; node !== undefined; node = node.parent) {
      const before = node.#overflowing();
      node.#guaranteedToChildren += promised;
      promised = Math.max(0, node.#guaranteedToChildren - node.#guaranteed);
      node.#guaranteed += promised;
      if (node.parent !== undefined) node.parent.#borrowed += node.#overflowing() - before;
    }
  }

  /** How many of its free permits this one may use without borrowing from its parent. */
  #covered(): number {
    return this.#guaranteed - this.#guaranteedToChildren;
  }

  /** What this one has borrowed from its parent. */
  #overflowing(): number {
    return Math.max(0, this.#borrowed - this.#covered());
  }

  /** How much of the next free permits taken here would be borrowed from the parent. */
  #overflow(taking: number): number {
    return Math.max(0, taking - Math.max(0, this.#covered() - this.#borrowed));
  }

  #hasFree(weight: number): boolean {
    if (weight === 0) return true;
    const free = this.#size - this.#guaranteedToChildren - this.#borrowed;
    // A limit may have shrunk below one caller's weight: alone, that caller still gets in.
    return weight <= free || (weight > this.#size && this.#inside === 0);
  }

  /**
   * Who may enter now, here or below; call its `takeTurn` at once. Children and direct callers
   * take turns. One that does not fit among the free
   * permits keeps its turn, so that a heavy caller is not overtaken for ever by light ones; only
   * those within their guarantee pass it.
   */
  next(now: number): Permits<Owner> | undefined {
    // Everybody needs at least one, and to ask whoever is next costs more than to look here.
    if (this.#waiting === 0) return undefined;
    if (this.#children.length === 0) {
      if (!this.#hasFree(1)) return undefined;
      const weight = this.owner.nextWeight(now);
      return weight > 0 && this.#hasFree(weight) ? this : undefined;
    }
    const turns = this.#children.length + 1;
    let held = false;
    for (let i = 0; i < turns; i += 1) {
      const turn = (this.#turn + i) % turns;
      const child = this.#children[turn];
      const found = child === undefined ? this : child.next(now);
      if (found === undefined) continue;
      let borrowing = found.owner.nextWeight(now);
      if (borrowing === 0) continue;
      for (let node = found; node !== this; node = node.parent as Permits<Owner>) {
        borrowing = node.#overflow(borrowing);
      }
      if (borrowing > 0 && held) continue;
      if (this.#hasFree(borrowing)) return found;
      held = true;
    }
    return undefined;
  }

  #passTurn(turn: number): void {
    if (turn !== this.#turn) this.#giveTurn(turn);
    this.#grantsLeft -= 1;
    if (this.#grantsLeft === 0) this.#giveTurn((turn + 1) % (this.#children.length + 1));
  }

  #giveTurn(turn: number): void {
    const child = this.#children[turn];
    this.#turn = turn;
    this.#grantsLeft = child === undefined ? 1 : child.#share;
  }
}
