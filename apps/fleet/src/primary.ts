import {
  type Clock,
  deadline,
  Lease,
  type LeaseStats,
  type Part,
  type Random,
  SpillwayError,
  type Store,
  untilAborted,
} from 'spillway';
import { httpError } from 'spillway-http';
import type { Changes, Decision } from './scheduling/changes.ts';
import { Fleet, type FleetStats } from './scheduling/fleet.ts';
import type { ChangeWriter, ChangeWriterStats } from './storage/change-writer.ts';
import type { FleetStorage } from './storage/fleet-storage.ts';

export interface PrimaryOptions {
  readonly storage: FleetStorage;
  readonly clock: Clock;
  readonly random: Random;
  /** For how long the claim to be the primary lasts without being renewed, in milliseconds. */
  readonly leaseMs: number;
}

/** All undefined while another instance is the primary. */
export interface PrimaryStats {
  readonly lease: LeaseStats | undefined;
  readonly fleet: FleetStats | undefined;
  readonly writer: ChangeWriterStats | undefined;
}

/** One time of being the primary. */
interface Term {
  readonly lease: Lease;
  readonly fleet: Fleet;
  readonly writer: ChangeWriter;
}

/** How many instances may wait to be the primary. */
const instancesMax = 100;
const retryMs = 1_000;

/**
 * The world in memory, while this instance is the only one that has it. It is loaded when the
 * lease is won and dropped when it is lost; what an instance decides after that is not stored.
 */
export class Primary implements Part {
  readonly name = 'primary';
  readonly #options: PrimaryOptions;
  readonly #end = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #term: Term | undefined;
  #serving: Promise<void> | undefined;
  #store: Store | undefined;

  constructor(options: PrimaryOptions) {
    this.#options = options;
    this.#first.promise.catch(() => {});
  }

  /** Whether this instance decides. */
  get isPrimary(): boolean {
    return this.#term?.lease.stats.held === true;
  }

  get stats(): PrimaryStats {
    const { lease, fleet, writer } = this.#term ?? {};
    return { lease: lease?.stats, fleet: fleet?.stats, writer: writer?.stats };
  }

  /** The world, to read; throws `NOT_PRIMARY` if another instance has it. */
  get fleet(): Fleet {
    return this.#current().fleet;
  }

  /** Decides, and tells the answer once what it changed is durable. */
  async decide<Reply>(work: (fleet: Fleet) => Decision<Reply>): Promise<Reply> {
    const { fleet, writer } = this.#current();
    writer.assertRoom();
    const { reply, changes } = decided(work, fleet, writer);
    await writer.store(changes);
    return reply;
  }

  /** The same for what has no answer. */
  async change(work: (fleet: Fleet) => Changes): Promise<void> {
    await this.decide((fleet) => ({ reply: undefined, changes: work(fleet) }));
  }

  /** Brings a finished run back into memory, if there is such a one and it is not there. */
  async recall(id: string, signal?: AbortSignal): Promise<void> {
    const { fleet } = this.#current();
    if (fleet.run(id) !== undefined) return;
    const run = await this.#options.storage.run(id, signal);
    if (run?.record.finished) fleet.recall(run);
  }

  /** Waits, as long as a primary that crashed may keep others waiting; then serves without. */
  async start(signal: AbortSignal): Promise<void> {
    const { clock, leaseMs, storage } = this.#options;
    this.#store = await storage.database.store(signal);
    this.#serving = this.#serve(this.#store);
    using limit = deadline(clock, 1.5 * leaseMs + retryMs, signal);
    await untilAborted(this.#first.promise, limit.signal).catch((error: unknown) => {
      if (limit.signal.aborted && !signal.aborted) return;
      throw error;
    });
  }

  /** Stores what is decided, then lets another instance be the primary. */
  async stop(): Promise<void> {
    this.#end.abort();
    await this.#serving;
    await this.#store?.[Symbol.asyncDispose]();
  }

  #current(): Term {
    const term = this.#term;
    if (term?.lease.stats.held) return term;
    throw httpError('NOT_PRIMARY', 'this instance is not the primary', { retryAfterMs: 1_000 });
  }

  async #serve(store: Store): Promise<void> {
    const { clock, random, leaseMs } = this.#options;
    const { signal } = this.#end;
    const terms = { store, name: 'fleet', ttlMs: leaseMs, queueMax: instancesMax };
    while (!signal.aborted) {
      try {
        await using lease = await Lease.acquire({ ...terms, clock, random }, signal);
        await this.#hold(lease);
      } catch (error) {
        if (signal.aborted) return;
        this.#first.reject(error);
        using pause = deadline(clock, retryMs, signal);
        await aborted(pause.signal);
      }
    }
  }

  async #hold(lease: Lease): Promise<void> {
    const { storage, clock, random } = this.#options;
    const fleet = new Fleet({ clock, random });
    const writer = storage.writer(fleet, lease.fence, clock);
    try {
      await writer.claim();
      await writer.store(fleet.restore(await storage.load()));
      lease.signal.throwIfAborted();
      this.#term = { lease, fleet, writer };
      this.#first.resolve();
      await aborted(AbortSignal.any([lease.signal, writer.signal, this.#end.signal]));
      if (!lease.signal.aborted) await writer.flush();
    } finally {
      this.#term = undefined;
      writer.close();
    }
  }
}

/** What a bug leaves half changed in memory is dropped, and loaded again as it was stored. */
function decided<Reply>(
  work: (fleet: Fleet) => Decision<Reply>,
  fleet: Fleet,
  writer: ChangeWriter,
): Decision<Reply> {
  try {
    return work(fleet);
  } catch (error) {
    if (!(error instanceof SpillwayError)) writer.close();
    throw error;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) resolve();
  else signal.addEventListener('abort', () => resolve(), { once: true });
  return promise;
}
