import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Limit, Sample } from '../src/limit/limit.ts';
import { Line } from './fixtures/permit-line.ts';

/** A limit whose size is told. */
class Told implements Limit {
  readonly sizeMax = 100;
  readonly seen: Sample[] = [];
  size = 10;

  observe(sample: Sample): void {
    this.seen.push(sample);
    this.size = sample.endedAt;
  }
}

describe('Permits: taking and giving', () => {
  it('gives as many as there are, and counts them here and above', () => {
    const root = new Line({ sizeMax: 3 });
    const child = new Line({ sizeMax: 2, parent: root });
    assert.deepEqual(child.take(1, 1, 1), [true, true, false]);
    assert.deepEqual([root.permits.inside, child.permits.inside], [2, 2]);
    assert.deepEqual(root.take(2, 1, 1), [false, true, false]);
    child.permits.give(1);
    assert.deepEqual([root.permits.inside, child.permits.inside], [2, 1]);
    assert.deepEqual(root.take(1, 1), [true, false]);
    assert.deepEqual(child.take(1), [false]);
    assert.deepEqual(root.take(0), [true], 'nothing is always free');
  });

  it('keeps what is promised to a child, which uses that before it borrows', () => {
    const root = new Line({ sizeMax: 4 });
    const child = new Line({ sizeMax: 4, guaranteed: 2, parent: root });
    assert.equal(root.permits.promised, 2);
    assert.deepEqual(root.take(1, 1, 1), [true, true, false]);
    assert.deepEqual(child.take(3, 2, 1), [false, true, false]);
    root.permits.give(1);
    assert.deepEqual(child.take(1, 1), [true, false]);
    child.permits.give(1);
    assert.deepEqual(root.take(1), [true], 'what was borrowed goes back first');
    child.permits.give(1);
    assert.deepEqual(root.take(1), [false], 'what is promised stays');
  });

  it('lets a child of a child use what is promised to either', () => {
    const root = new Line({ sizeMax: 5 });
    const middle = new Line({ sizeMax: 5, guaranteed: 3, parent: root });
    const low = new Line({ sizeMax: 5, guaranteed: 1, parent: middle });
    assert.deepEqual([root.permits.promised, middle.permits.promised], [3, 1]);
    assert.deepEqual(root.take(2, 1), [true, false]);
    assert.deepEqual(middle.take(2, 1), [true, false]);
    assert.deepEqual(low.take(1, 1), [true, false]);
    middle.permits.give(1);
    assert.deepEqual(low.take(1, 1), [true, false], 'lent by the middle, not by the root');
  });

  it('promises above what a lane below promises, and no more than once', () => {
    const root = new Line({ sizeMax: 9 });
    const middle = new Line({ sizeMax: 9, guaranteed: 3, parent: root });
    new Line({ guaranteed: 2, parent: middle });
    assert.equal(root.permits.promised, 3);
    const second = new Line({ guaranteed: 4, parent: middle });
    assert.deepEqual([root.permits.promised, middle.permits.promised], [6, 6]);
    second.permits.leave();
    assert.deepEqual([root.permits.promised, middle.permits.promised], [3, 2]);
  });

  it('counts anew what a lane has borrowed when a promise below it comes and goes', () => {
    const root = new Line({ sizeMax: 6 });
    const middle = new Line({ sizeMax: 6, guaranteed: 2, parent: root });
    middle.take(2);
    assert.deepEqual(root.take(4), [true]);
    root.permits.give(4);
    const low = new Line({ guaranteed: 2, parent: middle });
    // The two that are in use are the root's own now, since both promised ones are the low lane's.
    assert.deepEqual(root.take(3, 2, 1), [false, true, false]);
    low.permits.leave();
    assert.deepEqual(root.take(2, 1), [true, false]);
  });

  it('says what can be promised, here and above', () => {
    const root = new Line({ sizeMax: 10 });
    const middle = new Line({ sizeMax: 8, guaranteed: 4, parent: root });
    new Line({ sizeMax: 9, guaranteed: 5, parent: root });
    assert.deepEqual(
      [0, 1, 2].map((n) => root.permits.canPromise(n)),
      [true, true, false],
    );
    // Four are promised to it already, so that the root has to promise one more for five.
    assert.deepEqual(
      [4, 5, 6].map((n) => middle.permits.canPromise(n)),
      [true, true, false],
    );
    new Line({ guaranteed: 3, parent: middle });
    assert.deepEqual(
      [1, 2, 3].map((n) => middle.permits.canPromise(n)),
      [true, true, false],
    );
    const small = new Line({ sizeMax: 2 });
    assert.deepEqual(
      [2, 3].map((n) => small.permits.canPromise(n)),
      [true, false],
    );
  });

  it('says which weights can ever fit, whoever is inside now', () => {
    const root = new Line({ sizeMax: 10 });
    const middle = new Line({ sizeMax: 8, guaranteed: 4, parent: root });
    const low = new Line({ sizeMax: 7, guaranteed: 1, parent: middle });
    new Line({ sizeMax: 9, guaranteed: 3, parent: root });
    root.take(3);
    const fitting = (line: Line) => {
      return [...Array(12).keys()].filter((n) => line.permits.canEverFit(n)).at(-1);
    };
    // The root lends 10 - 7, the middle has 3 of its own beside what it promises.
    assert.deepEqual([fitting(root), fitting(middle), fitting(low)], [3, 6, 7]);
    const own = new Line({ sizeMax: 4, guaranteed: 3, parent: middle });
    assert.equal(own.permits.canEverFit(3), true);
    assert.deepEqual([own.permits.canEverFit(4), own.permits.canEverFit(5)], [true, false]);
    const full = new Line({ sizeMax: 3 });
    const all = new Line({ sizeMax: 4, guaranteed: 3, parent: full });
    assert.deepEqual([all.permits.canEverFit(3), all.permits.canEverFit(4)], [true, false]);
  });
});

describe('Permits: sizes', () => {
  it('have the size of their limit, which learns of each end here and below', () => {
    const limit = new Told();
    const root = new Line({ sizeMax: 100, limit });
    const middle = new Line({ sizeMax: 50, parent: root });
    const low = new Told();
    const child = new Line({ sizeMax: 100, limit: low, parent: middle });
    assert.deepEqual([root.permits.size, middle.permits.size, child.permits.size], [10, 50, 10]);
    child.take(2);
    middle.take(3);
    child.permits.observe({ outcome: 'late', isWhole: false, startedAt: 1 }, 7);
    const work = { outcome: 'late', isWhole: false, startedAt: 1, endedAt: 7 };
    assert.deepEqual([limit.seen, low.seen], [[{ ...work, inside: 5 }], [{ ...work, inside: 2 }]]);
    assert.deepEqual([root.permits.size, middle.permits.size, child.permits.size], [7, 50, 7]);
    assert.deepEqual(middle.take(2, 1), [true, false]);
  });

  it('may shrink below who is inside, and grow again', () => {
    const root = new Line({ sizeMax: 4 });
    root.take(4);
    root.permits.resize(2);
    root.permits.give(1);
    root.permits.give(1);
    assert.deepEqual(root.take(1), [false]);
    root.permits.give(1);
    assert.deepEqual(root.take(1, 1), [true, false]);
    root.permits.resize(5, 5);
    assert.deepEqual(root.take(3, 1), [true, false]);
    assert.deepEqual([root.permits.canEverFit(5), root.permits.canEverFit(6)], [true, false]);
    root.permits.resize(3);
    assert.deepEqual([root.permits.canEverFit(5), root.permits.canEverFit(6)], [true, false]);
  });

  it('let a caller in alone that fits no more since the size has shrunk', () => {
    const root = new Line({ sizeMax: 4 });
    new Line({ guaranteed: 1, parent: root });
    root.permits.resize(1);
    assert.deepEqual(root.take(3, 1), [true, false]);
    root.permits.give(3);
    root.permits.resize(4);
    assert.deepEqual(root.take(4), [false], 'at its full size no promised permit is taken');
    root.permits.resize(1);
    root.permits.setPaused(true);
    assert.deepEqual(root.take(1), [false], 'nor while it is paused');
  });

  it('are 0 while paused, here or above, whatever is resized meanwhile', () => {
    const root = new Line({ sizeMax: 4 });
    const middle = new Line({ sizeMax: 3, guaranteed: 1, parent: root });
    const low = new Line({ sizeMax: 2, guaranteed: 1, parent: middle });
    const sizes = () => [root, middle, low].map(({ permits }) => permits.size);
    middle.permits.setPaused(true);
    assert.deepEqual(sizes(), [4, 0, 0]);
    assert.deepEqual([...low.take(1), ...root.take(1)], [false, true]);
    root.permits.setPaused(true);
    low.permits.resize(1);
    middle.permits.setPaused(false);
    assert.deepEqual(sizes(), [0, 0, 0]);
    const late = new Line({ sizeMax: 1, parent: low });
    assert.equal(late.permits.size, 0);
    root.permits.setPaused(false);
    assert.deepEqual([...sizes(), late.permits.size], [4, 3, 1, 1]);
    low.permits.resize(2);
    assert.deepEqual(low.take(1), [true]);
  });
});

describe('Permits: whose turn it is', () => {
  it('finds nobody where nobody waits, and asks no lane that is full', () => {
    const root = new Line({ sizeMax: 1 });
    assert.equal(root.permits.next(0), undefined);
    assert.equal(root.asked, 0);
    root.wait(1, 1);
    assert.equal(root.permits.waiting, 2);
    assert.equal(root.serve(), root);
    assert.deepEqual([root.permits.waiting, root.permits.inside], [1, 1]);
    root.asked = 0;
    assert.deepEqual([root.serve(), root.asked], [undefined, 0]);
    root.permits.give(1);
    assert.equal(root.serve(), root);
    assert.equal(root.permits.waiting, 0);
  });

  it('finds nobody in a lane whose waiters are not for now', () => {
    const root = new Line({ sizeMax: 2 });
    const child = new Line({ sizeMax: 2, parent: root });
    child.permits.wait(1);
    assert.equal(root.permits.next(0), undefined);
    assert.equal(child.permits.next(0), undefined);
    root.wait(1);
    assert.equal(root.serve(), root);
    child.permits.wait(-1);
    assert.equal(root.permits.waiting, 0);
  });

  it('counts waiters and those inside in each lane above', () => {
    const root = new Line();
    const middle = new Line({ parent: root });
    const low = new Line({ parent: middle });
    const counts = (what: 'waiting' | 'inside') => [root, middle, low].map((l) => l.permits[what]);
    low.wait(2, 1);
    middle.wait(1);
    assert.deepEqual(counts('waiting'), [3, 3, 2]);
    root.serve();
    root.serve();
    assert.deepEqual(
      [counts('waiting'), counts('inside')],
      [
        [1, 1, 1],
        [3, 3, 2],
      ],
    );
    low.permits.wait(-1);
    assert.deepEqual(counts('waiting'), [0, 0, 0]);
  });

  it('lets children and direct callers take turns, and passes over those who lack waiters', () => {
    const root = new Line();
    const a = new Line({ parent: root });
    const b = new Line({ parent: root });
    for (const line of [root, a, b]) line.wait(1, 1, 1, 1);
    const turns = (n: number) => {
      return Array.from({ length: n }, () => ['a', 'b', 'root'][[a, b, root].indexOf(serve())]);
    };
    const serve = () => root.serve() as Line;
    assert.deepEqual(turns(5), ['a', 'b', 'root', 'a', 'b']);
    b.permits.wait(-1);
    b.permits.wait(-1);
    assert.deepEqual(turns(4), ['root', 'a', 'root', 'a']);
  });

  it('takes no turn for what a child enters by its guarantee', () => {
    const root = new Line({ sizeMax: 9 });
    const a = new Line({ parent: root });
    const b = new Line({ parent: root, guaranteed: 1 });
    const c = new Line({ parent: root });
    a.wait(1);
    assert.equal(root.serve(), a);
    b.wait(1, 1);
    c.wait(1);
    assert.equal(root.serve(), b);
    // The turn is still b's, which borrows now.
    assert.equal(root.serve(), b);
    a.wait(1);
    assert.equal(root.serve(), c);
  });

  it('lets no light caller pass a heavy one, but those within their guarantee', () => {
    const root = new Line({ sizeMax: 4 });
    const heavy = new Line({ parent: root });
    const light = new Line({ parent: root });
    const promised = new Line({ parent: root, guaranteed: 1 });
    light.take(1);
    heavy.wait(3);
    light.wait(1, 1);
    promised.wait(1, 1);
    assert.equal(root.serve(), promised);
    assert.equal(root.serve(), undefined);
    light.permits.give(1);
    assert.equal(root.serve(), heavy);
    heavy.permits.give(3);
    assert.deepEqual([root.serve(), root.serve(), root.serve()], [light, promised, light]);
  });

  it('goes by what a waiter two lanes down would borrow at each lane', () => {
    const root = new Line({ sizeMax: 4 });
    const middle = new Line({ parent: root, guaranteed: 2 });
    const low = new Line({ parent: middle });
    const other = new Line({ parent: middle });
    root.take(2);
    low.wait(3);
    other.wait(2);
    // The heavy one would borrow one of the root; the other stays within the guarantee.
    assert.equal(root.serve(), undefined, 'inside the middle lane the heavy one is next');
    root.permits.give(1);
    assert.equal(root.serve(), low);
    low.permits.give(3);
    assert.equal(root.serve(), other);
  });

  it('goes on with the turns when a lane leaves, and leaves once', () => {
    const root = new Line();
    const [a, b, c] = [1, 2, 3].map(() => new Line({ parent: root })) as [Line, Line, Line];
    assert.deepEqual(
      root.permits.children.map(({ owner }) => owner),
      [a, b, c],
    );
    a.permits.leave();
    a.permits.leave();
    assert.deepEqual(
      root.permits.children.map(({ owner }) => owner),
      [c, b],
    );
    b.wait(1, 1);
    c.wait(1, 1);
    assert.deepEqual([root.serve(), root.serve(), root.serve()], [c, b, c]);
    // It is the turn of b, or of the direct callers when b has left.
    b.queue.length = 0;
    b.permits.wait(-1);
    c.permits.leave();
    b.permits.leave();
    assert.deepEqual(root.permits.children, []);
    root.permits.leave();
    root.wait(1);
    assert.equal(root.serve(), root);
  });

  it('begins the turns again where its last lane has left', () => {
    const root = new Line();
    const [a, b] = [1, 2].map(() => new Line({ parent: root })) as [Line, Line];
    a.wait(1);
    b.wait(1);
    root.serve();
    root.serve();
    b.permits.leave();
    a.wait(1, 1);
    root.wait(1);
    // It was the turn of the direct callers, who have number 1 now; number 2 is nobody.
    assert.equal(root.serve(), a);
    assert.equal(root.serve(), root);
  });

  it('leaves the turn where it is when another lane leaves', () => {
    const root = new Line();
    const lines = [1, 2, 3, 4].map(() => new Line({ parent: root }));
    const [a, b, c, d] = lines as [Line, Line, Line, Line];
    a.wait(1);
    root.serve();
    d.permits.leave();
    for (const line of [root, a, b, c]) line.wait(1, 1);
    assert.equal(root.serve(), b);
    c.queue.length = 0;
    c.permits.wait(-1);
    c.permits.wait(-1);
    c.permits.leave();
    assert.equal(root.serve(), root, 'those who come after the last lane');
  });

  it('begins the turns with its first lane when one more comes', () => {
    const root = new Line();
    const a = new Line({ parent: root });
    a.wait(1);
    root.serve();
    const b = new Line({ parent: root });
    for (const line of [root, a, b]) line.wait(1);
    assert.deepEqual([root.serve(), root.serve(), root.serve()], [a, b, root]);
  });
});
