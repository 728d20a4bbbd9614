/** A member of at most one {@link LinkedList}; extend it with what the list holds. */
export class Link {
  list: LinkedList<Link> | undefined = undefined;
  previous: Link | undefined = undefined;
  next: Link | undefined = undefined;
}

/** Arrival order, with O(1) leaving from the middle and nothing allocated per member. */
export class LinkedList<Member extends Link> {
  first: Member | undefined = undefined;
  last: Member | undefined = undefined;
  size = 0;

  push(member: Member): void {
    member.list = this as unknown as LinkedList<Link>;
    member.previous = this.last;
    if (this.last === undefined) this.first = member;
    else this.last.next = member;
    this.last = member;
    this.size += 1;
  }

  unshift(member: Member): void {
    member.list = this as unknown as LinkedList<Link>;
    member.next = this.first;
    if (this.first === undefined) this.last = member;
    else this.first.previous = member;
    this.first = member;
    this.size += 1;
  }

  /** Takes the member out; false when it is not in this list. */
  remove(member: Member): boolean {
    if ((member.list as unknown) !== this) return false;
    const { previous, next } = member;
    if (previous === undefined) this.first = next as Member | undefined;
    else previous.next = next;
    if (next === undefined) this.last = previous as Member | undefined;
    else next.previous = previous;
    member.list = undefined;
    member.previous = undefined;
    member.next = undefined;
    this.size -= 1;
    return true;
  }

  /** Those that are here now, oldest first; they may leave meanwhile. */
  *[Symbol.iterator](): Generator<Member> {
    for (let member = this.first; member !== undefined; ) {
      const next = member.next as Member | undefined;
      yield member;
      member = next;
    }
  }

  shift(): Member | undefined {
    const { first } = this;
    if (first !== undefined) this.remove(first);
    return first;
  }
}
