import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import { Line } from './fixtures/permit-line.ts';

/** The accounting of a lane's permits by its definitions, counted anew each time. */
class Model {
  readonly line: Line;
  readonly parent: Model | undefined;
  readonly children: Model[] = [];
  readonly sizeMax: number;
  readonly guarantee: number;
  /** Weights of its own callers. */
  readonly held: number[] = [];
  size: number;
  isPaused = false;

  constructor(parent: Model | undefined, sizeMax: number, guarantee: number) {
    this.parent = parent;
    this.sizeMax = sizeMax;
    this.size = sizeMax;
    this.guarantee = guarantee;
    const above = parent === undefined ? {} : { parent: parent.line };
    this.line = new Line({ sizeMax, guaranteed: guarantee, ...above });
    parent?.children.push(this);
  }

  get promised(): number {
    return sum(this.children.map(({ guaranteed }) => guaranteed));
  }

  get guaranteed(): number {
    return Math.max(this.guarantee, this.promised);
  }

  get inside(): number {
    return sum(this.held) + sum(this.children.map(({ inside }) => inside));
  }

  get waiting(): number {
    return this.line.queue.length + sum(this.children.map(({ waiting }) => waiting));
  }

  get borrowed(): number {
    return sum(this.held) + sum(this.children.map(({ overflowing }) => overflowing));
  }

  /** Permits borrowed from its parent. */
  get overflowing(): number {
    return Math.max(0, this.borrowed - (this.guaranteed - this.promised));
  }

  get isHeld(): boolean {
    return this.isPaused || this.parent?.isHeld === true;
  }

  get room(): number {
    return this.isHeld ? 0 : this.size;
  }

  /** This one and all above it. */
  get path(): Model[] {
    return [this, ...(this.parent?.path ?? [])];
  }

  /** True if each lane up to the root has what a caller of that weight would borrow there. */
  canTake(weight: number): boolean {
    const before = this.path.map((each) => {
      const isAlone = each.inside === 0 && !each.isHeld && each.size < each.sizeMax;
      return { isAlone, borrowed: each.borrowed };
    });
    this.held.push(weight);
    const can = this.path.every((each, at) => {
      const { isAlone, borrowed } = before[at] as (typeof before)[number];
      const isFree = each.borrowed === borrowed || each.borrowed <= each.room - each.promised;
      return isFree || isAlone;
    });
    this.held.pop();
    return can;
  }

  /** True if each lane up to the root could keep one more such promise. */
  canPromise(permits: number): boolean {
    const asked: Pick<Model, 'guaranteed'> = { guaranteed: permits };
    this.children.push(asked as Model);
    const can = this.path.every(({ promised, sizeMax }) => promised <= sizeMax);
    this.children.pop();
    return can;
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

/** A tree of lanes that grows and shrinks by chance, and whose permits come and go. */
class Play {
  readonly #random: () => number;
  readonly #root: Model;
  readonly #all: Model[];

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#root = new Model(undefined, 4 + this.#upTo(6), 0);
    this.#all = [this.#root];
  }

  /** Does one thing, and compares all that can be seen of each lane. */
  step(): void {
    const [name, action] = this.#oneOf(this.#actions);
    action(this.#oneOf(this.#all));
    for (const one of this.#all) {
      const { permits } = one.line;
      assert.deepEqual(
        [permits.inside, permits.promised, permits.size, permits.waiting],
        [one.inside, one.promised, one.room, one.waiting],
        name,
      );
      for (const weight of [1, 2, 3]) {
        const isTaken = permits.tryTake(weight);
        if (isTaken) permits.give(weight);
        assert.equal(isTaken, one.canTake(weight), `${name}, then tryTake(${weight})`);
      }
    }
  }

  readonly #actions: readonly (readonly [string, (one: Model) => void])[] = [
    ['adopt', (one) => this.#adopt(one)],
    ['leave', (one) => this.#leave(one)],
    ['take', (one) => this.#take(one, 1 + this.#upTo(2))],
    ['take one', (one) => this.#take(one, 1)],
    ['give', (one) => this.#give(one)],
    ['give all', () => this.#giveAll()],
    ['wait', (one) => one.line.wait(1)],
    ['serve', () => this.#serve()],
    ['resize', (one) => this.#resize(one)],
    ['pause', (one) => this.#pause(one, this.#random() < 0.3)],
  ];

  #adopt(one: Model): void {
    const guarantee = this.#upTo(3);
    const can = one.line.permits.canPromise(guarantee);
    assert.equal(can, one.canPromise(guarantee), `canPromise(${guarantee})`);
    const isWanted = can && this.#all.length < 7;
    if (isWanted) this.#all.push(new Model(one, Math.max(1, guarantee) + this.#upTo(7), guarantee));
  }

  #leave(one: Model): void {
    const isEmpty = one.inside === 0 && one.waiting === 0 && one.children.length === 0;
    if (one.parent === undefined || !isEmpty) return;
    one.line.permits.leave();
    this.#all.splice(this.#all.indexOf(one), 1);
    one.parent.children.splice(one.parent.children.indexOf(one), 1);
  }

  #take(one: Model, weight: number): void {
    if (one.line.permits.tryTake(weight)) one.held.push(weight);
  }

  #give(one: Model): void {
    const weight = one.held.pop();
    if (weight !== undefined) one.line.permits.give(weight);
  }

  #giveAll(): void {
    for (const one of this.#all) while (one.held.length > 0) this.#give(one);
  }

  #serve(): void {
    const able = this.#all.filter((one) => one.line.queue.length > 0 && one.canTake(1));
    const line = this.#root.line.serve();
    const found = this.#all.find((one) => one.line === line);
    if (found !== undefined) {
      assert.ok(able.includes(found), 'found somebody who may not enter');
      found.held.push(1);
      return;
    }
    assert.equal(able.length, 0, 'found nobody, though somebody may enter');
  }

  #resize(one: Model): void {
    one.size = 1 + this.#upTo(one.sizeMax - 1);
    one.line.permits.resize(one.size);
  }

  #pause(one: Model, isPaused: boolean): void {
    one.isPaused = isPaused;
    one.line.permits.setPaused(isPaused);
  }

  /** An integer from 0 to `most`. */
  #upTo(most: number): number {
    return Math.floor(this.#random() * (most + 1));
  }

  #oneOf<T>(all: readonly T[]): T {
    return all[this.#upTo(all.length - 1)] as T;
  }
}

describe('Permits', () => {
  for (let first = 1; first < 200; first += 40) {
    it(`are what their definitions say, whatever happens, from seed ${first} on`, () => {
      for (let seed = first; seed < first + 40; seed += 1) {
        const play = new Play(seed);
        for (let step = 0; step < 150; step += 1) {
          try {
            play.step();
          } catch (error) {
            throw new Error(`seed ${seed}, step ${step}`, { cause: error });
          }
        }
      }
    });
  }
});
