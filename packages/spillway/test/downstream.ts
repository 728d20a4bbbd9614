import assert from 'node:assert/strict';
import { type Limit, type Outcome, type Random, type Sample, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';

/** A number of servers, each taking `serviceMs` give or take 20 %, and a queue in front of them. */
export class Downstream {
  readonly clock: VirtualClock = new VirtualClock();
  readonly random: Random;
  servers: number;
  serviceMs: number;
  /** Added to each call without keeping a server busy: the way there and back. */
  lagMs: number = 0;
  /** Service times that vary without bound (exponential) instead. */
  isNoisy: boolean = false;
  /** More than this waiting are refused. */
  queueMax: number = Infinity;
  /** Every call hangs for exactly this long, whatever else is set. */
  hangMs: number | undefined;
  done = 0;
  #busy = 0;
  readonly #queue: ((outcome: Outcome) => void)[] = [];

  constructor(servers: number, serviceMs: number, seed: number = 7) {
    this.random = seededRandom(seed);
    this.servers = servers;
    this.serviceMs = serviceMs;
  }

  call(end: (outcome: Outcome) => void): void {
    if (this.hangMs !== undefined) {
      this.clock.after(this.hangMs, () => end('ok'));
    } else if (this.#queue.length >= this.queueMax) {
      this.clock.after(this.lagMs + 1, () => end('dropped'));
    } else {
      this.#queue.push(end);
      this.#serve();
    }
  }

  #serve(): void {
    if (this.#busy >= this.servers) return;
    const end = this.#queue.shift();
    if (end === undefined) return;
    this.#busy += 1;
    const chance = this.random();
    const times = this.isNoisy ? -Math.log(1 - chance) : 0.8 + 0.4 * chance;
    this.clock.after(this.serviceMs * times, () => {
      this.#busy -= 1;
      this.done += 1;
      if (this.lagMs === 0) end('ok');
      else this.clock.after(this.lagMs, () => end('ok'));
      this.#serve();
    });
  }
}

/** Keeps the limit full, or as full as `ratePerSecond` and `insideMax` allow. */
export class Load {
  readonly #limit: Limit;
  readonly #downstream: Downstream;
  readonly #insideMax: number;
  readonly #ratePerSecond: number | undefined;
  #inside = 0;
  #waiting = 0;
  #isOver: boolean = false;
  /** The most that were inside at once. */
  insideMost = 0;

  constructor(
    limit: Limit,
    downstream: Downstream,
    options: { ratePerSecond?: number; insideMax?: number } = {},
  ) {
    this.#limit = limit;
    this.#downstream = downstream;
    this.#insideMax = options.insideMax ?? Infinity;
    this.#ratePerSecond = options.ratePerSecond;
    if (this.#ratePerSecond === undefined) this.#fill();
    else this.#arrive();
  }

  /** Plays for that many milliseconds; gives the mean and the largest size, and the done per ms. */
  async play(ms: number): Promise<{ mean: number; most: number; perMs: number }> {
    const before = this.#downstream.done;
    let sum = 0;
    let most = 0;
    for (let i = 0; i < 100; i += 1) {
      await this.#downstream.clock.advance(ms / 100);
      sum += this.#limit.size;
      most = Math.max(most, this.#limit.size);
    }
    return { mean: sum / 100, most, perMs: (this.#downstream.done - before) / ms };
  }

  stop(): void {
    this.#isOver = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    await this.#downstream.clock.advance(10_000_000);
    assert.equal(this.#inside, 0);
    assert.equal(this.#downstream.clock.pending, 0);
  }

  #arrive(): void {
    if (this.#isOver) return;
    this.#waiting = Math.min(100, this.#waiting + 1);
    this.#fill();
    const meanMs = 1000 / (this.#ratePerSecond as number);
    const ms = -Math.log(1 - this.#downstream.random()) * meanMs;
    this.#downstream.clock.after(ms, () => this.#arrive());
  }

  #fill(): void {
    const isOpen = this.#ratePerSecond !== undefined;
    while (!this.#isOver && this.#inside < Math.min(this.#limit.size, this.#insideMax)) {
      if (isOpen && this.#waiting === 0) return;
      this.#waiting -= 1;
      this.#inside += 1;
      this.insideMost = Math.max(this.insideMost, this.#inside);
      const { clock } = this.#downstream;
      const startedAt = clock.now();
      this.#downstream.call((outcome) => {
        const inside = this.#inside;
        this.#limit.observe({ outcome, startedAt, endedAt: clock.now(), inside });
        this.#inside -= 1;
        this.#fill();
      });
    }
  }
}

export function assertWithin(actual: number, low: number, high: number, what = 'it'): void {
  const message = `${what} is ${actual.toFixed(3)}, wanted from ${low} to ${high}`;
  assert.ok(actual >= low && actual <= high, message);
}

/** The size the servers need, and a share below and above that is still right. */
export function assertSize(actual: number, servers: number): void {
  assertWithin(actual / servers, 0.85, 1.4, 'the size over what Little’s law asks for');
}

/** Feeds a limit with samples, one round trip after the other, that keep it full. */
export class Feed {
  readonly #limit: Limit;
  now = 0;

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  trip(count: number, latencyMs: number, sample: Partial<Sample> = {}): void {
    const startedAt = this.now;
    this.now += latencyMs;
    for (let i = 0; i < count; i += 1) {
      const { size: inside } = this.#limit;
      this.#limit.observe({ outcome: 'ok', startedAt, endedAt: this.now, inside, ...sample });
    }
  }
}
