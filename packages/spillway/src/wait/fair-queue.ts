import { Ring, type RingMember } from './ring.ts';

/** Priorities are few, so that finding the highest takes few steps. */
export const priorityMax = 7;
/** Keys share this many sub-queues: memory stays bounded however many tenants come. */
const subQueueMax = 256;

/** The fields that decide the order of service. */
export interface Ordered {
  /** The permits that it takes. */
  readonly weight: number;
  /** From 0 to 7; a higher one is served first. */
  readonly priority: number;
  /** The tenant or user it belongs to; keys take turns. */
  readonly key: string | undefined;
  readonly arrivedAt: number;
}

class SubQueue<Member extends RingMember> implements RingMember {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  readonly members = new Ring<Member>();
  /** Deficit round robin: permits that this key may still take in its turn. */
  deficit = 0;

  candidate(newestFirst: boolean): Member | undefined {
    return newestFirst ? this.members.last : this.members.first;
  }
}

/**
 * The members of one priority: keys take turns by deficit round robin. As in FQ-CoDel, a key that
 * begins to wait is served before the others, once: so a key that always waits, since it asks for
 * more than its share, does not delay keys that ask for less.
 */
class Level<Member extends RingMember & Ordered> {
  readonly keyless = new SubQueue<Member>();
  readonly #keyed: SubQueue<Member>[] = [];
  /** Sub-queues of keys that have begun to wait and were not served since (new flows). */
  readonly fresh = new Ring<SubQueue<Member>>();
  /** The other sub-queues that are not empty (old flows); the first has the turn. */
  readonly turns = new Ring<SubQueue<Member>>();

  subQueueOf(hash: number): SubQueue<Member> {
    const at = hash % subQueueMax;
    this.#keyed[at] ??= new SubQueue<Member>();
    return this.#keyed[at];
  }

  /**
   * Folds the members of each key into one value. With a generator in its place, an arrival at a
   * full queue of 256 keys took 11 us instead of 2 (2026-11).
   */
  fold<T>(start: T, step: (value: T, members: Ring<Member>) => T): T {
    const stepOver = (value: T, { members }: SubQueue<Member>): T => step(value, members);
    return this.turns.fold(this.fresh.fold(start, stepOver), stepOver);
  }

  *[Symbol.iterator](): Generator<Member> {
    for (const { members } of this.fresh) yield* members;
    for (const { members } of this.turns) yield* members;
  }
}

/**
 * Serves the highest priority first, then keys in turn, then in order of arrival, all in O(1). Keys
 * are hashed into 256 sub-queues with a secret seed, so that nobody can choose a key that collides
 * with another's.
 */
export class FairQueue<Member extends RingMember & Ordered> {
  readonly #levels: (Level<Member> | undefined)[] = [];
  readonly #seed: number;
  #size = 0;
  #quantum = 1;
  /** The sub-queue of the member that `next` has just given, if it is a fresh one. */
  #fresh: SubQueue<Member> | undefined = undefined;

  constructor(seed: number) {
    this.#seed = seed;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds the member last among those of its key, or first if it was taken and comes back. */
  push(member: Member, comesBack = false): void {
    const { priority, key, weight } = member;
    this.#levels[priority] ??= new Level<Member>();
    const level = this.#levels[priority];
    const subQueue = key === undefined ? level.keyless : level.subQueueOf(hashOf(key, this.#seed));
    if (weight > this.#quantum) this.#quantum = weight;
    if (subQueue.ring === undefined) {
      level.fresh.push(subQueue);
      subQueue.deficit = this.#quantum;
    }
    if (comesBack) subQueue.members.unshift(member);
    else subQueue.members.push(member);
    this.#size += 1;
  }

  /** Takes the member out, wherever it stands; false when it is not here. */
  remove(member: Member): boolean {
    const ring = member.ring as Ring<Member> | undefined;
    if (ring === undefined || !ring.remove(member)) return false;
    this.#size -= 1;
    return true;
  }

  /** The next member to serve, left in place; the newest of its key with `newestFirst`. */
  next(newestFirst = false): Member | undefined {
    if (this.#size === 0) return undefined;
    for (let priority = this.#levels.length - 1; priority >= 0; priority -= 1) {
      const level = this.#levels[priority];
      if (level === undefined) continue;
      const { fresh, turns } = level;
      while (fresh.size > 0) {
        const chosen = (newestFirst ? fresh.last : fresh.first) as SubQueue<Member>;
        const candidate = chosen.candidate(newestFirst);
        this.#fresh = chosen;
        if (candidate !== undefined) return candidate;
        fresh.remove(chosen);
      }
      this.#fresh = undefined;
      for (let first = turns.first; first; first = turns.first) {
        const candidate = first.candidate(newestFirst);
        if (candidate && (turns.size === 1 || first.deficit >= candidate.weight)) return candidate;
        turns.shift();
        if (candidate === undefined) continue;
        first.deficit += this.#quantum;
        turns.push(first);
      }
    }
    return undefined;
  }

  /** Takes out the member that `next` has just given. */
  take(member: Member): void {
    const level = this.#levels[member.priority] as Level<Member>;
    const fresh = this.#fresh;
    if (fresh !== undefined) {
      level.fresh.remove(fresh);
      fresh.deficit -= member.weight;
      level.turns.push(fresh);
    } else if (level.turns.first !== undefined && level.turns.size !== 1) {
      level.turns.first.deficit -= member.weight;
    }
    this.remove(member);
  }

  /**
   * True if at most that many members are served before a newcomer: all of a higher priority, and
   * of each other key no more than its own key has. A turn under way may add one.
   */
  hasAhead({ priority, key }: Ordered, most: number): boolean {
    let ahead = 0;
    for (let at = this.#levels.length - 1; at >= priority; at -= 1) {
      const level = this.#levels[at];
      if (level === undefined) continue;
      const own = key === undefined ? level.keyless : level.subQueueOf(hashOf(key, this.#seed));
      const shareMost = at === priority ? own.members.size + 1 : Infinity;
      ahead = level.fold(ahead, (sum, { size }) => sum + Math.min(size, shareMost));
      if (ahead > most) return false;
    }
    return true;
  }

  /** All members, in no particular order. */
  *[Symbol.iterator](): Generator<Member> {
    for (const level of this.#levels) yield* level ?? [];
  }

  /** The member that came first, whatever the order of service. */
  oldest(): Member | undefined {
    let oldest: Member | undefined;
    for (const level of this.#levels) {
      oldest = level?.fold(oldest, olderOf) ?? oldest;
    }
    return oldest;
  }

  /**
   * The member to refuse when the queue is too long: at the lowest priority, the newest of the key
   * with most members, or its oldest with `isOldestOut`. So a tenant that fills the queue pushes
   * out its own work.
   */
  surplus(newcomer?: Member, isOldestOut: boolean = false): Member | undefined {
    for (const level of this.#levels) {
      const longest = level?.fold<Ring<Member> | undefined>(undefined, longerOf);
      if (longest?.last === undefined) continue;
      const rival = newcomer?.priority === longest.last.priority ? newcomer.ring : undefined;
      const isOwn = rival !== undefined && rival.size >= longest.size;
      if (!isOldestOut) return isOwn ? newcomer : longest.last;
      // If each key has one member, that of the key that has waited longest goes.
      const isRival = isOwn && longest.size > 1;
      return (isRival ? (rival as unknown as Ring<Member>) : longest).first;
    }
    return undefined;
  }
}

function longerOf<Member extends RingMember>(
  longest: Ring<Member> | undefined,
  members: Ring<Member>,
): Ring<Member> {
  return longest === undefined || members.size > longest.size ? members : longest;
}

function olderOf<Member extends RingMember & Ordered>(
  oldest: Member | undefined,
  { first }: Ring<Member>,
): Member | undefined {
  if (first === undefined || oldest === undefined) return first ?? oldest;
  return first.arrivedAt < oldest.arrivedAt ? first : oldest;
}

/** A hash that cannot be predicted without the seed. */
export function hashOf(key: string, seed: number): number {
  let hash = seed | 0;
  for (let i = 0; i < key.length; i += 1) {
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  }
  // The finalizer of MurmurHash3: without it the last bit of a key decides that of its hash.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
