/** A member of at most one {@link Recency}; extend it with what is kept in order. */
export class Recent {
  older: Recent | undefined = undefined;
  newer: Recent | undefined = undefined;
  listed = false;
}

/** Members in the order they were last touched; every change costs the same at any size. */
export class Recency<Member extends Recent> {
  #oldest: Member | undefined;
  #newest: Member | undefined;
  #size = 0;

  get oldest(): Member | undefined {
    return this.#oldest;
  }

  get size(): number {
    return this.#size;
  }

  /** Makes it the newest, whether it was here or not. */
  touch(member: Member): void {
    if (member === this.#newest) return;
    this.remove(member);
    member.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = member;
    else this.#newest.newer = member;
    this.#newest = member;
    member.listed = true;
    this.#size += 1;
  }

  remove(member: Member): void {
    if (!member.listed) return;
    const { older, newer } = member;
    if (older === undefined) this.#oldest = newer as Member | undefined;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older as Member | undefined;
    else newer.older = older;
    member.older = undefined;
    member.newer = undefined;
    member.listed = false;
    this.#size -= 1;
  }
}
