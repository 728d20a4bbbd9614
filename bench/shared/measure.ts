import { setImmediate, setTimeout } from 'node:timers/promises';

/** Waits until the limiter lets one more call start. */
export type Take = () => Promise<unknown>;
/** Takes a lock, once nobody else holds it. */
export type Lock = (name: string) => Promise<HeldLock>;
/** Publishes a message, and resolves when another machine has received it. */
export type Message = () => Promise<unknown>;

export interface HeldLock {
  /** Holds it for as long again. */
  renew(): Promise<unknown>;
  release(): Promise<unknown>;
}

/** The parts of one library; each call of a function opens the part for one machine. */
export interface Parts {
  readonly rate?: (open: Opening) => Promise<Take>;
  readonly lock?: (place: Place) => Promise<Lock>;
  readonly message?: (place: Place) => Promise<Message>;
}

export interface Library {
  readonly redis: Parts;
  readonly postgres?: Parts;
}

export interface Place {
  readonly url: string;
  /** Disposed when the run is over. */
  readonly stack: AsyncDisposableStack;
}

export interface Opening extends Place {
  readonly ratePerSecond: number;
}

export interface ServerPlace extends Place {
  /** CPU time of the server, and the number of scripts that it has run. */
  work(): Promise<{ readonly cpuMs: number; readonly scripts: number }>;
}

export type Figures = Readonly<Record<string, number>>;

/** Four parties, each with connections of its own as machines have, and 16 callers in each. */
const parties = 4;
const callers = 16;
/** The first second does not count: the bucket starts full, so it has more than the others. */
const settleMs = 1_000;

export async function measureRate(
  open: NonNullable<Parts['rate']>,
  place: ServerPlace,
  rate: number,
  ms: number,
): Promise<Figures> {
  const before = await place.work();
  const starts = await play({ open, ...place, rate, ms });
  const after = await place.work();
  const cpuMs = after.cpuMs - before.cpuMs;
  const steady = starts.filter((at) => at >= settleMs).length;
  return {
    'share of the rate': (steady * 100_000) / ms / rate,
    'most in any second, of the rate': (mostWithin(starts, 1_000) * 100) / rate,
    'scripts sent a take': (after.scripts - before.scripts) / starts.length,
    'CPU of the server a take': (cpuMs * 1_000) / starts.length,
    takes: (steady * 1_000) / ms,
  };
}

interface Play {
  readonly open: (open: Opening) => Promise<Take>;
  readonly url: string;
  readonly rate: number;
  readonly ms: number;
  readonly stack: AsyncDisposableStack;
}

/** Time of each start, in milliseconds from the beginning, until `ms` after the first second. */
async function play({ open, url, rate, ms, stack }: Play): Promise<number[]> {
  const machines: Take[] = [];
  for (let i = 0; i < parties; i += 1) {
    machines.push(await open({ url, ratePerSecond: rate, stack }));
  }
  const starts: number[] = [];
  const startedAt = performance.now();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const call = async (take: Take): Promise<void> => {
    for (let own = 1; ; own += 1) {
      await take();
      const at = performance.now() - startedAt;
      if (at > settleMs + ms) return end();
      starts.push(at);
      // Each call begins in a turn of its own, as requests do; otherwise the loop would starve.
      if (own % 16 === 0) await setImmediate();
    }
  };
  for (const take of machines) {
    // Callers still waiting at the end are refused when their limiter closes.
    for (let i = 0; i < callers; i += 1) void call(take).catch(() => {});
  }
  await over;
  return starts;
}

/** The largest number of starts in any window of this many milliseconds. */
export function mostWithin(starts: readonly number[], ms: number): number {
  let found = 0;
  let first = 0;
  for (const [index, at] of starts.entries()) {
    while (at - (starts[first] ?? at) >= ms) first += 1;
    found = Math.max(found, index - first + 1);
  }
  return found;
}

/** Uncontended locks: each of `count` callers takes and returns its own, again and again. */
export async function measureLocks(
  open: NonNullable<Parts['lock']>,
  place: Place,
  count: number,
  ms: number,
): Promise<Figures> {
  const lock = await open(place);
  const locks = await countEach(count, ms, async (name) => (await lock(name)).release());
  return { locks };
}

/** Held locks: each of `count` callers holds one for longer, again and again. */
export async function measureRenewals(
  open: NonNullable<Parts['lock']>,
  place: Place,
  count: number,
  ms: number,
): Promise<Figures> {
  const lock = await open(place);
  const held = new Map<string, HeldLock>();
  for (let at = 0; at < count; at += 1) held.set(`bench-${at}`, await lock(`bench-${at}`));
  const renewals = await countEach(count, ms, async (name) => held.get(name)?.renew());
  for (const each of held.values()) await each.release();
  return { renewals };
}

/** Calls per second by this many callers; the first half second warms up. */
async function countEach(
  count: number,
  ms: number,
  work: (name: string) => Promise<unknown>,
): Promise<number> {
  const startsAt = performance.now() + 500;
  const endsAt = startsAt + ms;
  let done = 0;
  const call = async (name: string): Promise<void> => {
    for (let now = 0; now < endsAt; now = performance.now()) {
      await work(name);
      if (now >= startsAt) done += 1;
    }
  };
  await Promise.all(Array.from({ length: count }, (_, at) => call(`bench-${at}`)));
  return (done * 1_000) / ms;
}

/** Two machines compete for one lock: the time from one's release until the other has it. */
export async function measurePassing(
  open: NonNullable<Parts['lock']>,
  place: Place,
  ms: number,
): Promise<Figures> {
  const machines = [await open(place), await open(place)];
  let endsAt = Infinity;
  const delaysMs: number[] = [];
  let held = await machines[0]?.('wanted');
  for (let turn = 1; performance.now() < endsAt; turn += 1) {
    const wanting = machines[turn % 2]?.('wanted');
    // Time for the other to find the lock held and, the first time, to open its subscription.
    await setTimeout(turn < 3 ? 500 : 10);
    const from = performance.now();
    const released = held?.release();
    held = await wanting;
    if (turn >= 3) delaysMs.push(performance.now() - from);
    else endsAt = performance.now() + ms;
    await released;
  }
  await held?.release();
  return quantiles(delaysMs);
}

export async function measureMessages(
  open: NonNullable<Parts['message']>,
  place: Place,
  ms: number,
): Promise<Figures> {
  const send = await open(place);
  await send();
  const endsAt = performance.now() + ms;
  const delaysMs: number[] = [];
  while (performance.now() < endsAt) {
    const from = performance.now();
    await send();
    delaysMs.push(performance.now() - from);
    await setTimeout(5);
  }
  return quantiles(delaysMs);
}

function quantiles(values: readonly number[]): Figures {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
