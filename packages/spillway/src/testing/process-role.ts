import { createInterface } from 'node:readline';
import { type Clock, systemClock } from '../base/clock.ts';
import { SpillwayError } from '../base/errors.ts';
import { consecutiveFailures } from '../outbound/break-rule.ts';
import { Lease } from '../shared/lease.ts';
import { SharedBreaker } from '../shared/shared-breaker.ts';
import { SharedBucket } from '../shared/shared-bucket.ts';
import { SharedGate } from '../shared/shared-gate.ts';
import type { Store, StoreReading } from '../store/store.ts';
import { pause } from '../wait/wait-queue.ts';

/** Settings that all processes of a {@link processCases} case share. */
export const bucketRule = { name: 'rush', ratePerSecond: 200, burst: 50, queueMax: 99 };
/** Time that a call of the store may take on a busy machine, in milliseconds. */
const patienceMs = 10_000;
export const takeMs = 4_000;
/** Milliseconds between two looks at whether this process runs when it is due. */
const tickMs = 10;
/** A call of the store that takes longer, in milliseconds, is a delay of the machine. */
const quickMs = 50;

const say = (line: string) => process.stdout.write(`${line}\n`);

/**
 * Plays the role that a {@link processCases} case gave to this process, on the store that all of
 * them share; the role is the last argument of the process. Ends with the process that started it.
 */
export async function playProcessRole(store: Store): Promise<void> {
  const commands = createInterface(process.stdin);
  commands.once('close', () => process.exit());
  const role = process.argv.at(-1);
  if (role === 'fight') await fight(store);
  else if (role === 'take') await take(store, commands);
  else if (role === 'call') await call(store, commands);
  else if (role === 'enter') await enter(store);
  else throw new Error(`no role: ${role}`);
}

type Commands = ReturnType<typeof createInterface>;

/** Acquires the lease again and again, writes while it holds it, and reports each write. */
async function fight(store: Store): Promise<void> {
  for (;;) {
    try {
      const terms = { name: 'fight', ttlMs: 300, pollMs: 10, deadlineMs: patienceMs };
      await using lease = await Lease.acquire({ store, ...terms });
      for (let i = 0; i < 3 && !lease.signal.aborted; i += 1) {
        const changes = lease.guard([{ name: 'log', value: lease.fence }]);
        say(`guarded ${lease.fence}`);
        await pause(systemClock, 40);
        const done = await store.commit(changes);
        say(done ? `written ${lease.fence} ${done.version}` : `refused ${lease.fence}`);
      }
    } catch (error) {
      if (!(error instanceof SpillwayError)) throw error;
    }
  }
}

/** The line that a process of the role `take` prints at its end. */
export interface TakeReport {
  /** Store time of each token. */
  readonly uses: readonly number[];
  /** Calls of the store. */
  readonly calls: number;
  /** Time for which the machine kept the process or the store from running. */
  readonly delayedMs: number;
}

/** A view of a store that counts its calls and sums up the time of the slow ones. */
function measured(store: Store) {
  const spent = { calls: 0, slowMs: 0 };
  const measure = <Args extends unknown[], T>(call: (...args: Args) => T) => {
    return (...args: Args): T => {
      const startedAt = systemClock.now();
      const end = () => {
        spent.slowMs += Math.max(0, systemClock.now() - startedAt - quickMs);
      };
      spent.calls += 1;
      const answer = call.apply(store, args);
      Promise.resolve(answer).then(end, end);
      return answer;
    };
  };
  const view: Store = {
    read: measure(store.read),
    commit: measure(store.commit),
    ...(store.apply && { apply: measure(store.apply) }),
    list: measure(store.list),
    [Symbol.asyncDispose]: async () => {},
  };
  return { view, spent };
}

/** Takes tokens as fast as it can. */
async function take(store: Store, commands: Commands): Promise<void> {
  const { view, spent } = measured(store);
  const aheadMs = await storeAheadMs(store);
  let readAt = 0;
  // Notes the bucket's time of the token, however late this process gets it.
  const clock: Clock = {
    now: () => {
      readAt = systemClock.now();
      return readAt;
    },
    after: (ms, callback) => systemClock.after(ms, callback),
  };
  const bucket = new SharedBucket({ store: view, ...bucketRule, clock, deadlineMs: patienceMs });
  say('ready');
  await new Promise((begin) => commands.once('line', begin));
  const endsAt = systemClock.now() + takeMs;
  const uses: number[] = [];
  const work = async () => {
    while (systemClock.now() < endsAt) {
      await bucket.take();
      uses.push(Math.round((readAt + aheadMs) * 10) / 10);
    }
  };
  using delays = new LoopDelays();
  await Promise.all(Array.from({ length: 45 }, work));
  const delayedMs = Math.round(delays.sumMs + spent.slowMs);
  const report: TakeReport = { uses, calls: spent.calls, delayedMs };
  say(JSON.stringify(report));
  await bucket[Symbol.asyncDispose]();
}

/** Sum of the times for which a busy machine kept this process from running when it was due. */
export class LoopDelays implements Disposable {
  sumMs = 0;
  #timer: Disposable = this.#next(systemClock.now());

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
  }

  #next(from: number): Disposable {
    return systemClock.after(tickMs, () => {
      const now = systemClock.now();
      const lateMs = now - from - tickMs;
      if (lateMs > tickMs) this.sumMs += lateMs;
      this.#timer = this.#next(now);
    });
  }
}

/** Measures how far the store's clock is ahead, in ms, by the quickest of several answers. */
async function storeAheadMs(store: Store): Promise<number> {
  let best = { tookMs: Infinity, aheadMs: 0 };
  for (let i = 0; i < 10; i += 1) {
    const sentAt = systemClock.now();
    const { now }: StoreReading = await store.read(['time']);
    const tookMs = systemClock.now() - sentAt;
    if (tookMs < best.tookMs) best = { tookMs, aheadMs: now - sentAt - tookMs / 2 };
  }
  return best.aheadMs;
}

/** The most that may be inside at once, over all processes of the role `enter`. */
export const gateLimit = 3;

/** Enters a gate again and again; each caller inside has a record of its own in the store. */
async function enter(store: Store): Promise<void> {
  const terms = { name: 'narrow', limit: gateLimit, queueMax: 9, ttlMs: 1_500, pollMs: 20 };
  const gate = new SharedGate({ store, ...terms, deadlineMs: patienceMs });
  const work = async (index: number) => {
    for (;;) {
      try {
        await gate.run(async (signal) => {
          const name = `inside/${process.pid}/${index}`;
          // The record of a process that was killed expires before its permit does.
          await store.commit([{ name, value: 1, ttlMs: 600 }], { signal });
          const inside = await store.list('inside/', { max: 99, signal });
          say(`inside ${inside.length}`);
          await pause(systemClock, 20, signal);
          await store.commit([{ name }]);
        });
      } catch (error) {
        if (!(error instanceof SpillwayError)) throw error;
      }
    }
  };
  await Promise.all([1, 2, 3].map(work));
}

/**
 * Calls a dependency that the case turns up or down; prints each new outcome, and for how many
 * milliseconds the machine has kept the process or the store from running so far.
 */
async function call(store: Store, commands: Commands): Promise<void> {
  let mode = 'up';
  commands.on('line', (line) => {
    mode = line;
  });
  const { view, spent } = measured(store);
  using delays = new LoopDelays();
  const breaker = new SharedBreaker({
    store: view,
    name: 'api',
    rule: consecutiveFailures(3),
    cooldownMs: 1_200,
    jitter: 0,
    successesToClose: 1,
    deadlineMs: 5_000,
  });
  const task = async () => {
    say('began');
    if (mode === 'down') throw new Error('down');
    if (mode === 'slow') await pause(systemClock, 500);
  };
  for (let told = ''; ; await pause(systemClock, 20)) {
    const ended = await breaker.run(task).then(
      () => 'passed',
      (error: unknown) => (error instanceof SpillwayError ? 'refused' : 'failed'),
    );
    if (ended !== told) say(`${ended} ${Math.round(delays.sumMs + spent.slowMs)}`);
    told = ended;
  }
}
