import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  MemoryStore,
  SharedGate,
  type SharedPermit,
  SqliteStore,
  type Store,
  type StoreChange,
  type StoreCommit,
  type StoreListOptions,
  seededRandom,
  stack,
} from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { SimulatedProcess } from './fixtures/simulated-process.ts';
import { play, seeds } from './simulations/play.ts';

/** Gates of several simulated processes on one store. */
function scene({ limit, count = 2, queueMax = 99 }: { limit: number } & Record<string, number>) {
  const clock = new VirtualClock();
  const random = seededRandom(1);
  const shared = new MemoryStore({ clock });
  const processes = Array.from({ length: count }, () => {
    const process = new SimulatedProcess(clock);
    const store = new FaultyStore(shared, { clock, process, random, delayMsMax: 2 });
    const terms = { name: 'gpu', limit, queueMax, ttlMs: 1_000, pollMs: 50 };
    return { process, store, gate: new SharedGate({ store, clock: process, random, ...terms }) };
  });
  const gates = processes.map(({ gate }) => gate);
  return { clock, shared, processes, gates };
}

/** A line to the store whose commits may be held back: they arrive late, and are not answered. */
class HeldLine implements Store {
  /** Held commits by the order in which they were sent. */
  readonly held: (() => Promise<unknown>)[] = [];
  holds = false;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  read(names: readonly string[]) {
    return this.#store.read(names);
  }

  list(prefix: string, options: StoreListOptions) {
    return this.#store.list(prefix, options);
  }

  commit(changes: readonly StoreChange[]): Promise<StoreCommit | undefined> {
    if (!this.holds) return this.#store.commit(changes);
    this.held.push(() => this.#store.commit(changes));
    return new Promise(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

function heldScene(limit: number) {
  const clock = new VirtualClock();
  const store = new MemoryStore({ clock });
  const terms = { name: 'gpu', limit, queueMax: 9, ttlMs: 1_000, pollMs: 50, clock };
  const random = seededRandom(1);
  const open = () => {
    const line = new HeldLine(store);
    const gate = new SharedGate({ store: line, random, ...terms });
    return { line, gate };
  };
  return { clock, open };
}

const byLength = (a: { name: string }, b: { name: string }) => a.name.length - b.name.length;

describe('SharedGate', () => {
  it('lets in as many as it may of all processes, and the next when one leaves', async () => {
    const { clock, gates } = scene({ limit: 3 });
    const [a, b] = gates as [SharedGate, SharedGate];
    const permits: SharedPermit[] = [];
    for (const gate of [a, a, b, b, b]) {
      void Promise.resolve(gate.enter()).then((permit) => permits.push(permit));
      await clock.advance(20);
    }
    await clock.advance(200);
    assert.deepEqual([permits.length, a.stats.inside + b.stats.inside], [3, 3]);
    assert.equal(b.stats.waiting, 2);
    permits.shift()?.[Symbol.dispose]();
    await clock.advance(200);
    assert.equal(permits.length, 3);
    for (const permit of permits) permit[Symbol.dispose]();
    await clock.advance(200);
    assert.equal(permits.length, 4);
    permits.at(-1)?.[Symbol.dispose]();
    const closed = Promise.all(gates.map((gate) => gate.close()));
    await clock.advance(100);
    await closed;
    assert.equal(clock.pending, 0);
  });

  it('frees the permits of a process that crashed after their time', async () => {
    const { clock, processes } = scene({ limit: 2 });
    const [a, b] = processes as [(typeof processes)[0], (typeof processes)[0]];
    const taken = [a.gate.enter(), a.gate.enter()];
    await clock.advance(50);
    await Promise.all(taken);
    a.process.crash();
    let at = 0;
    void Promise.resolve(b.gate.enter()).then(() => {
      at = clock.now();
    });
    await clock.advance(4_000);
    assert.ok(at > 700 && at < 2_500, `${at}`);
  });

  it('tells those inside that their permits are lost, before another has them', async () => {
    const { clock, processes } = scene({ limit: 1 });
    const [a, b] = processes as [(typeof processes)[0], (typeof processes)[0]];
    const running = a.gate.run((signal) => {
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    });
    const heard = assert.rejects(running, { code: 'GATE_LOST', retryable: true });
    await clock.advance(100);
    a.store.down = true;
    let other: SharedPermit | undefined;
    void Promise.resolve(b.gate.enter()).then((permit) => {
      other = permit;
      assert.equal(a.gate.stats.lost, 1);
    });
    await clock.advance(4_000);
    await heard;
    assert.ok(other !== undefined && !other.signal.aborted);
  });

  for (const lost of ['gate/gpu', 'gate/gpu/']) {
    it(`tells those inside when the store has lost ${lost}, as after a failover`, async () => {
      const { clock, shared, gates } = scene({ limit: 2, count: 1 });
      const [gate] = gates as [SharedGate];
      const entering = gate.enter();
      await clock.advance(20);
      const permit = await entering;
      const all = await shared.list('gate/gpu', { max: 9 });
      const [record] = all.filter(({ name }) => name.startsWith(lost)).toSorted(byLength);
      await shared.commit([{ name: record?.name as string }]);
      await clock.advance(400);
      assert.equal(Object(permit.signal.reason).code, 'GATE_LOST');
      permit[Symbol.dispose]();
      const closed = gate.close();
      await clock.advance(200);
      await closed;
    });
  }

  it('takes nobody for dead who comes back while it is removed', async () => {
    const { clock, open } = heldScene(2);
    const a = open();
    const b = open();
    // The claim of a is made, but its answer is lost, and then a is cut off until it has expired.
    a.line.holds = true;
    const refused = assert.rejects(Promise.resolve(a.gate.enter()), { code: 'STORE_UNREACHABLE' });
    await clock.advance(10);
    await a.line.held[0]?.();
    await clock.advance(1_100);
    await refused;
    // While b removes it, a comes back.
    const others = Promise.all([b.gate.enter(), b.gate.enter()]);
    await clock.advance(10);
    b.line.holds = true;
    while (b.line.held.length === 0) await clock.advance(10);
    a.line.holds = false;
    const permit = await clock.run(Promise.resolve(a.gate.enter()));
    b.line.holds = false;
    await b.line.held[0]?.();
    await clock.advance(500);
    assert.deepEqual([a.gate.stats.inside, b.gate.stats.inside], [1, 1]);
    permit[Symbol.dispose]();
    await clock.run(others);
  });

  it('is not robbed by a commit of its own that arrives late', async () => {
    const { clock, open } = heldScene(2);
    const a = open();
    const b = open();
    const entering = [a.gate.enter(), a.gate.enter()];
    await clock.advance(10);
    const [first] = await Promise.all(entering);
    // A permit is given back, but the commit is under way for long; it is needed again meanwhile.
    a.line.holds = true;
    first?.[Symbol.dispose]();
    while (a.line.held.length === 0) await clock.advance(10);
    a.line.holds = false;
    const again = a.gate.enter();
    await clock.advance(200);
    await again;
    await a.line.held[0]?.();
    const other = Promise.resolve(b.gate.enter());
    await clock.advance(500);
    assert.deepEqual([a.gate.stats.inside, b.gate.stats.inside], [2, 0]);
    (await again)[Symbol.dispose]();
    await clock.run(other);
  });

  it('gives each process its turn, though there are more of them than permits', async () => {
    const { clock, gates } = scene({ limit: 2, count: 5 });
    const turns = gates.map(() => 0);
    const endsAt = clock.now() + 4_000;
    for (const [at, gate] of gates.entries()) {
      const live = async () => {
        while (clock.now() < endsAt) {
          await gate.run(() => new Promise<void>((resolve) => clock.after(20, resolve)));
          turns[at] = (turns[at] as number) + 1;
        }
      };
      for (let caller = 0; caller < 4; caller += 1) void live();
    }
    await clock.advance(5_000);
    const most = Math.max(...turns);
    const least = Math.min(...turns);
    assert.ok(least > 0 && most < 2 * least, turns.join());
    const all = turns.reduce((sum, each) => sum + each, 0);
    assert.ok(all > 0.5 * 400, `${all} of 400`);
  });

  it('asks the store rarely while its own callers follow each other', async () => {
    const { clock, gates } = scene({ limit: 8 });
    let done = 0;
    for (const gate of gates) {
      const live = async () => {
        while (clock.now() < 10_000) {
          await gate.run(() => new Promise<void>((resolve) => clock.after(20, resolve)));
          done += 1;
        }
      };
      for (let caller = 0; caller < 4; caller += 1) void live();
    }
    await clock.advance(11_000);
    const trips = gates.reduce((sum, { stats }) => sum + stats.trips, 0);
    assert.ok(done > 3_900, `${done} of 4,000`);
    assert.ok(trips < 0.05 * done, `${trips} trips for ${done}`);
  });

  it('refuses at the door, tells of aborts at once, and closes', async () => {
    const { clock, gates } = scene({ limit: 1, queueMax: 1 });
    const [gate] = gates as [SharedGate];
    assert.equal(gate.tryEnter(), undefined);
    await clock.advance(20);
    const permit = gate.tryEnter();
    assert.ok(permit !== undefined, 'what was missing is claimed for later');
    const stop = new AbortController();
    const waiting = assert.rejects(Promise.resolve(gate.enter({ signal: stop.signal })), /stop/);
    assert.throws(() => gate.enter(), { code: 'GATE_FULL' });
    assert.equal(gate.stats.refused, 1);
    stop.abort(new Error('stop'));
    await waiting;
    const last = assert.rejects(Promise.resolve(gate.enter()), { code: 'GATE_CLOSED' });
    const closing = gate.close();
    await last;
    permit[Symbol.dispose]();
    await clock.advance(100);
    await closing;
    assert.throws(() => gate.enter(), { code: 'GATE_CLOSED' });
    assert.equal(clock.pending, 0);
  });

  it('keeps no permit of a caller who left when its turn came', async () => {
    const { clock, gates } = scene({ limit: 1, count: 1 });
    const [gate] = gates as [SharedGate];
    const first = gate.enter();
    await clock.advance(50);
    const control = new AbortController();
    const gone = assert.rejects(
      gate.run(async () => assert.fail('ran'), control),
      /left/,
    );
    await clock.advance(50);
    (await first)[Symbol.dispose]();
    control.abort(new Error('left'));
    await gone;
    assert.equal(gate.stats.inside, 0);
    const closed = gate.close();
    await clock.advance(200);
    await closed;
  });

  it('refuses those who wait when the store cannot be reached', async () => {
    const { clock, processes } = scene({ limit: 1 });
    const [a] = processes as [(typeof processes)[0]];
    a.store.down = true;
    const refused = assert.rejects(Promise.resolve(a.gate.enter()), { code: 'STORE_UNREACHABLE' });
    await clock.advance(1_000);
    await refused;
    assert.equal(a.gate.ready, false);
  });

  it('leaves nothing in the store, and composes with others', async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-gate-'));
    await using store = await SqliteStore.open({ path: join(folder.path, 'gate.db') });
    {
      // Only a machine that is very busy needs so long.
      const terms = { store, queueMax: 9, ttlMs: 180_000, deadlineMs: 60_000 };
      await using gate = new SharedGate({ ...terms, name: 'gpu', limit: 2 });
      await using other = new SharedGate({ ...terms, name: 'cpu', limit: 9 });
      const call = stack(other, gate);
      let inside = 0;
      let most = 0;
      const task = async () => {
        inside += 1;
        most = Math.max(most, inside);
        await new Promise(setImmediate);
        inside -= 1;
        return 'done';
      };
      const results = await Promise.all(Array.from({ length: 6 }, () => call(task)));
      assert.deepEqual([new Set(results).size, most], [1, 2]);
    }
    assert.deepEqual(await store.list('', { max: 9 }), []);
  });

  it('never has too many inside, with crashes, pauses, delays and lost answers', async () => {
    const { entered, most } = await play('gate');
    assert.ok(Number(entered) > seeds * 20 && most === 4, `${entered} entered, ${most} at once`);
  });
});
