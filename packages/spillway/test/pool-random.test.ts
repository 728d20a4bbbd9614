// Slow: plays many random schedules.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { Pool, type PoolRunOptions, type Random } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { SimulatedThreads } from './fixtures/simulated-threads.ts';
import * as worker from './fixtures/simulated-worker.ts';

type Module = typeof worker;

const module = new URL('./fixtures/simulated-worker.ts', import.meta.url);
const codes = ['CLEARED', 'DEADLINE', 'POOL_CLOSED', 'POOL_FULL', 'WORKER_LOST'];

/** One pool, one random load; what each call came to is checked as soon as it ends. */
class Scenario {
  readonly clock = new VirtualClock();
  readonly world: worker.World;
  readonly threads: SimulatedThreads;
  readonly signals: AbortSignal[] = [];
  readonly #random: Random;
  #workers: number;
  readonly #concurrency: number;
  readonly #isFrail: boolean;
  /** True when an operator resizes, pauses and clears the pool. */
  readonly #isChanged: boolean;
  readonly settled = new Map<number, string>();
  /** Calls whose callers left before the pool had sent them. */
  readonly neverSent = new Set<number>();
  crashes = 0;
  calls = 0;
  pool!: Pool<Module>;

  constructor(random: Random) {
    this.#random = random;
    this.#workers = 1 + this.pick(3);
    this.#concurrency = 1 + this.pick(3);
    this.#isFrail = random() < 0.5;
    this.#isChanged = random() < 0.5;
    const { clock } = this;
    this.world = {
      clock,
      begun: new Map(),
      inside: new Set(),
      latest: new Map(),
      overtakings: 0,
      overlaps: 0,
      sleeping: 0,
      setupMs: this.pick(3) * 5,
      workers: 0,
      mixes: 0,
    };
    this.threads = new SimulatedThreads({ clock, random, delayMsMax: this.pick(3) });
    worker.simulate(this.world);
  }

  pick(n: number): number {
    return Math.floor(this.#random() * n);
  }

  async open(): Promise<void> {
    const recycle = this.pick(2) === 0 ? {} : this.#recycle();
    const options = { workers: this.#workers, concurrency: this.#concurrency, recycle };
    const killAfterMs = this.pick(2) === 0 ? Infinity : 5;
    const times = { deadlineMs: 20 + this.pick(40), killAfterMs, queueMax: this.pick(12) };
    const { clock, threads } = this;
    const random = this.#random;
    const given = { module, clock, random, threads: threads.start, ...options, ...times };
    this.pool = await clock.run(Pool.open<Module>(given));
  }

  #recycle(): { ageMsMax: number; tasksMax: number; intervalMs: number } {
    return { ageMsMax: 20 + this.pick(60), tasksMax: 2 + this.pick(30), intervalMs: this.pick(20) };
  }

  /** Does one random thing. */
  step(): Promise<void> | undefined {
    const dice = this.pick(100);
    if (dice < 60) return this.#call();
    if (dice < 70) this.#publish();
    else if (dice < 72 && this.#isFrail) this.crashes += this.threads.crash() ? 1 : 0;
    else if (dice >= 80 && this.#isChanged) this.#change();
    return undefined;
  }

  #change(): void {
    const { pool } = this;
    const kind = this.pick(8);
    if (kind === 0) pool.pause();
    else if (kind < 3) pool.resume();
    else if (kind === 3) pool.clear();
    else {
      this.#workers = 1 + this.pick(4);
      pool.resize(this.#workers);
      assert.equal(pool.stats.limit, this.#workers * this.#concurrency);
    }
  }

  #publish(): void {
    const version = this.pool.stats.version + 1;
    assert.equal(this.pool.publish({ version, copy: version }), version);
  }

  async #call(): Promise<void> {
    const id = this.calls;
    this.calls += 1;
    const controller = new AbortController();
    this.signals.push(controller.signal);
    const affinity = this.pick(this.#isChanged ? 2 : 4) === 0 ? `a${this.pick(3)}` : undefined;
    const job = { id, ms: this.pick(30), fails: this.pick(8) === 0, affinity };
    const key = this.pick(2) === 0 ? `k${this.pick(3)}` : undefined;
    const buffer = new ArrayBuffer(8);
    const options: PoolRunOptions = {
      signal: controller.signal,
      cancel: this.pick(3) === 0 ? 'queued' : 'always',
      transfer: this.pick(4) === 0 ? [buffer] : [],
      affinity,
      key,
      priority: this.pick(3),
    };
    const leaveMs = this.pick(3) === 0 ? this.pick(15) : Infinity;
    const leave = () => {
      controller.abort(new Error('left'));
      if (leaveMs === 0) this.neverSent.add(id);
    };
    if (leaveMs === 0) queueMicrotask(leave);
    const timer = this.clock.after(leaveMs === 0 ? Infinity : leaveMs, leave);
    const isMoved = options.transfer?.length === 1;
    const outcome = await this.#outcome(isMoved ? { ...job, buffer } : job, options);
    timer[Symbol.dispose]();
    assert.ok(!this.settled.has(id), `call ${id} settled twice`);
    this.settled.set(id, outcome);
  }

  async #outcome(job: worker.Job, options: PoolRunOptions): Promise<string> {
    const { id, ms } = job;
    const kind = this.pick(3);
    try {
      if (kind === 0) {
        assert.equal(await this.pool.run('quick', job, options), id * 2);
      } else if (kind === 1) {
        assert.match(await this.pool.run('work', job, options), new RegExp(`^${id} with`));
      } else {
        const breakAt = this.pick(40);
        let next = 0;
        for await (const chunk of this.pool.stream('chunks', job, options)) {
          assert.equal(chunk, next);
          if (chunk === breakAt) return 'broke off';
          next += 1;
        }
        assert.equal(next, ms);
      }
      assert.ok(!job.fails, `call ${id} should have failed`);
      assert.equal(this.world.begun.get(id), 1, `call ${id} ended without having run once`);
      return 'done';
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      if (message === `job ${id} fails` && job.fails) return 'failed';
      if (message === 'left' && options.signal?.aborted) return 'left';
      if (code === 'WORKER_LOST' && !this.#isFrail && this.pool.stats.lost === 0) throw error;
      if (code === undefined || !codes.includes(code)) throw error;
      const hasBegun = this.world.begun.has(id);
      if (code === 'WORKER_LOST') {
        // What was moved to a worker is lost with it; all else runs elsewhere.
        const isMoved = job.buffer !== undefined;
        assert.ok(hasBegun || isMoved, `call ${id} was lost before it began`);
        const isUnknown = kind > 0 || job.fails || (isMoved && !hasBegun);
        assert.ok(isUnknown, `call ${id} was lost though its result was there`);
      }
      const isRefused = code === 'POOL_FULL' || code === 'CLEARED';
      if (isRefused) assert.ok(!hasBegun, `call ${id} began though refused`);
      return code;
    }
  }

  /** Asserts the invariants that hold at any time. */
  check(): void {
    const { limit, inside, waiting, arrived, started, refused, workers } = this.pool.stats;
    const turnedAway = Object.values(refused).reduce((sum, count) => sum + count, 0);
    assert.equal(arrived, started + inside + waiting + turnedAway);
    assert.ok(waiting >= 0 && inside >= 0);
    const ready = workers.filter(({ state }) => state === 'ready');
    assert.ok(ready.length <= this.#workers, `${ready.length} workers take tasks`);
    if (this.#isChanged) return;
    assert.ok(workers.length <= this.#workers + 1, 'more than one worker is being replaced');
    // Handlers of a crashed thread go on in this simulation; a leaving worker ends what it has.
    const extra = this.crashes + this.pool.stats.lost + 1;
    assert.ok(this.world.inside.size <= limit + extra * this.#concurrency);
    if (extra === 1 && workers.length === this.#workers)
      assert.ok(this.world.inside.size <= limit, `${this.world.inside.size} inside`);
  }

  checkEnd(): void {
    const { pool, clock, threads, world } = this;
    this.check();
    assert.equal(this.settled.size, this.calls);
    assert.deepEqual([pool.stats.inside, pool.stats.waiting], [0, 0]);
    assert.equal(threads.size, 0);
    assert.equal(world.mixes, 0, 'a task saw two versions');
    assert.equal(world.overtakings, 0, 'a task overtook another of its affinity');
    if (this.#concurrency === 1 && this.crashes + pool.stats.lost === 0)
      assert.equal(world.overlaps, 0, 'a task ran beside another of its affinity');
    for (const [id, times] of world.begun) {
      assert.ok(times === 1, `call ${id} ran ${times} times`);
      assert.ok(!this.neverSent.has(id), `call ${id} ran though its caller had left`);
    }
    for (const signal of this.signals) assert.equal(getEventListeners(signal, 'abort').length, 0);
    // Handlers of threads that were ended sleep on in this simulation.
    assert.equal(clock.pending - world.sleeping, 0, `${clock.pending} timers left`);
  }
}

const outcomes = new Map<string, number>();

async function play(random: Random): Promise<void> {
  const scenario = new Scenario(random);
  const { clock } = scenario;
  await scenario.open();
  const calls: Promise<void>[] = [];
  const steps = 5 + scenario.pick(45);
  for (let i = 0; i < steps; i += 1) {
    const call = scenario.step();
    if (call !== undefined) calls.push(call);
    if (scenario.pick(3) === 0) await clock.advance(scenario.pick(8));
    scenario.check();
  }
  const withinMs = scenario.pick(2) === 0 ? 1_000 : scenario.pick(20);
  const closedAt = clock.now();
  await clock.run(scenario.pool.close({ withinMs }));
  assert.ok(clock.now() - closedAt < 200, 'closing took longer than any task');
  await Promise.all(calls);
  scenario.checkEnd();
  for (const outcome of scenario.settled.values()) {
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }
}

describe('a pool under random load', () => {
  it('answers every call exactly once, loses nothing and leaves nothing behind', async () => {
    await explore(2_000, play);
    const kinds = ['done', 'failed', 'left', 'broke off', ...codes];
    for (const kind of kinds) assert.ok(outcomes.has(kind), `no call ever ended as ${kind}`);
  });
});
