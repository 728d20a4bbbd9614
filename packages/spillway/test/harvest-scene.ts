import {
  Bucket,
  Harvest,
  type HarvestBatch,
  type HarvestCheckpoint,
  type HarvestOptions,
  type HarvestSink,
  type HarvestSource,
  MemoryStore,
  type Random,
  rangeSource,
  type Store,
  seededRandom,
  storeSink,
} from 'spillway';
import { VirtualClock } from 'spillway/testing';

export interface ServerOptions {
  /** The time that an answer takes, in ms. */
  readonly latencyMs?: () => number;
  /** The share of answers that are a 503, from 0 to 1. */
  readonly errorShare?: number;
  /** More than this in any second are answered with a 429. */
  readonly ratePerSecond?: number;
  /** Asked before each answer: what it throws is the answer. */
  readonly refuse?: (from: number) => void;
}

/** The other side: it counts what comes in sliding windows of a second. */
export class SimulatedServer {
  readonly #clock: VirtualClock;
  readonly #random: Random;
  readonly #options: ServerOptions;
  /** The arrival time of each request. */
  readonly arrivals: number[] = [];
  readonly asked: Map<number, number> = new Map();
  throttled = 0;
  inFlight = 0;
  inFlightMax = 0;

  constructor(clock: VirtualClock, random: Random, options: ServerOptions = {}) {
    this.#clock = clock;
    this.#random = random;
    this.#options = options;
  }

  async answer<T>(from: number, value: T, signal: AbortSignal): Promise<T> {
    const { latencyMs = () => 20, errorShare = 0, ratePerSecond = Infinity } = this.#options;
    const now = this.#clock.now();
    this.arrivals.push(now);
    this.asked.set(from, (this.asked.get(from) ?? 0) + 1);
    const isTooMuch = (this.arrivals.at(-1 - ratePerSecond) ?? -Infinity) > now - 1000;
    this.inFlight += 1;
    this.inFlightMax = Math.max(this.inFlightMax, this.inFlight);
    try {
      await wait(this.#clock, latencyMs(), signal);
    } finally {
      this.inFlight -= 1;
    }
    if (isTooMuch) {
      this.throttled += 1;
      throw failure(429, { retryAfterMs: 2_000 });
    }
    if (this.#random() < errorShare) throw failure(503);
    this.#options.refuse?.(from);
    return value;
  }
}

export function failure(status: number, more: object = {}): Error {
  return Object.assign(new Error(`status ${status}`), { status, ...more });
}

export function wait(clock: VirtualClock, ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = clock.after(ms, resolve);
  const leave = () => {
    timer[Symbol.dispose]();
    reject(signal?.reason);
  };
  if (signal?.aborted) leave();
  signal?.addEventListener('abort', leave, { once: true });
  return promise.finally(() => signal?.removeEventListener('abort', leave));
}

/** The ids from 0 to `to`, as rows. */
export function ids(
  server: SimulatedServer,
  name: string,
  to: number,
  pageSize = 10,
): HarvestSource<number> {
  return rangeSource<number>({
    name,
    from: 0,
    to,
    pageSize,
    idOf: (id) => id,
    fetch: ({ from, to: end }, signal) => server.answer(from, numbers(from, end), signal),
  });
}

export function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, at) => from + at);
}

/** A sink in the store that holds each commit against what harvest promises. */
export class CheckedSink implements HarvestSink<number> {
  readonly broken: string[] = [];
  readonly commits: HarvestBatch<number, number>[] = [];
  readonly #sink: HarvestSink<number>;

  constructor(store: Store) {
    this.#sink = storeSink<number>(store, (batch) =>
      batch.pages.map((page) => {
        const name = `rows/${batch.source}/${String(page.from).padStart(9, '0')}`;
        return { name, ifVersion: 0, value: page.rows };
      }),
    );
  }

  load(source: string, signal: AbortSignal): Promise<HarvestCheckpoint<number> | undefined> {
    return this.#sink.load(source, signal);
  }

  async commit(
    batch: HarvestBatch<number, number>,
    checkpoint: HarvestCheckpoint<number>,
    fence: { readonly name: string; readonly fence: number },
    signal: AbortSignal,
  ): Promise<void> {
    const before = await this.#sink.load(batch.source, signal);
    this.#check(batch, checkpoint, before);
    await this.#sink.commit(batch, checkpoint, fence, signal);
    this.commits.push(batch);
  }

  #check(
    batch: HarvestBatch<number, number>,
    checkpoint: HarvestCheckpoint<number>,
    before: HarvestCheckpoint<number> | undefined,
  ): void {
    const isRepeat = before?.commits === checkpoint.commits;
    if (isRepeat || (before?.fence ?? 0) > checkpoint.fence) return;
    const position = before?.position ?? 0;
    if (checkpoint.position < position) this.broken.push('the checkpoint went back');
    if (batch.isGap) return;
    if (batch.from !== position) this.broken.push(`${batch.from} is not next to ${position}`);
    if (batch.to !== checkpoint.position) this.broken.push('the checkpoint is not at the end');
    const rows = batch.pages.flatMap((page) => page.rows);
    const gaps = checkpoint.gaps.slice(before?.gaps.length ?? 0);
    const missing = gaps.flatMap(({ from, to }) => numbers(from, to));
    const all = [...rows, ...missing].sort((a, b) => a - b);
    if (all.join() !== numbers(batch.from, batch.to).join()) this.broken.push('not all there');
    if (rows.join() !== [...rows].sort((a, b) => a - b).join()) this.broken.push('out of order');
  }
}

/** All rows of a source that are durable, in order. */
export async function rowsOf(store: Store, source: string): Promise<number[]> {
  const records = await store.list(`rows/${source}/`, { max: 10_000 });
  return records.flatMap((record) => record.value as number[]);
}

export interface Scene {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly server: SimulatedServer;
  readonly store: MemoryStore;
  readonly sink: CheckedSink;
  readonly bucket: Bucket;
  readonly harvest: Harvest<number>;
}

/** A harvest over simulated parts on a virtual clock. */
export function scene(
  options: Partial<HarvestOptions<number>> & ServerOptions & { readonly seed?: number } = {},
): Scene {
  const { seed = 1, latencyMs: _latency, errorShare: _share, ...rest } = options;
  const { ratePerSecond: _rate, refuse: _refuse, ...own } = rest;
  const clock = new VirtualClock();
  const random = seededRandom(seed);
  const server = new SimulatedServer(clock, random, options);
  const store = new MemoryStore({ clock });
  const sink = new CheckedSink(store);
  const bucket = new Bucket({ ratePerSecond: 100, queueMax: 10, clock });
  const harvest = new Harvest<number>({ sink, store, bucket, clock, random, ...own });
  return { clock, random, server, store, sink, bucket, harvest };
}
