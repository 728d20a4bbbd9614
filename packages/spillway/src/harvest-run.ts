import { untilAborted } from './abort.ts';
import { deadline } from './deadline.ts';
import { SpillwayError } from './errors.ts';
import { field, retryAfterMsOf, statusOf } from './failure.ts';
import { harvestBatch, nextCheckpoint } from './harvest-batch.ts';
import { Bell } from './harvest-bell.ts';
import type { HarvestSettings } from './harvest-options.ts';
import type { HarvestCheckpoint } from './harvest-sink.ts';
import type { HarvestAnswer, HarvestSource } from './harvest-source.ts';
import { type HarvestSlot, HarvestWindow } from './harvest-window.ts';
import { Lease } from './lease.ts';
import { retry } from './retry.ts';
import type { Json } from './store.ts';

/** How a source ended: `skipped` when another process holds its lease. */
export type HarvestStatus = 'done' | 'failed' | 'skipped' | 'stopped';

export interface HarvestOutcome<Position> {
  readonly source: string;
  readonly status: HarvestStatus;
  /** As it was last committed; undefined if nothing ever was, or the lease was not had. */
  readonly checkpoint: HarvestCheckpoint<Position> | undefined;
  /** Why it failed, was stopped or was skipped. */
  readonly error: unknown;
}

export interface HarvestSourceStats<Position> {
  readonly name: string;
  readonly status: HarvestStatus | 'running';
  /** Where the next commit begins; undefined until the lease is had. */
  readonly position: Position | undefined;
  readonly inFlight: number;
  /** Pages asked for and not committed. */
  readonly window: number;
  /** Pages committed by this harvest. */
  readonly pages: number;
  /** Rows committed, by earlier harvests too. */
  readonly rows: number;
  /** Attempts that failed, and were or will be made again. */
  readonly retries: number;
  readonly gaps: number;
  /** Milliseconds until it is done, at its pace so far; undefined where that cannot be known. */
  readonly etaMs: number | undefined;
}

/** Why a run ended before its source did. */
interface End {
  readonly status: HarvestStatus;
  readonly error: unknown;
}

/** What a run has while it holds the lease. */
interface Held<Row, Position extends Json> {
  readonly lease: Lease;
  readonly window: HarvestWindow<Row, Position>;
  checkpoint: HarvestCheckpoint<Position>;
}

/** One source on its way: it says which page is next, and commits what has come, in order. */
export class HarvestRun<Row, Position extends Json> {
  readonly source: HarvestSource<Row, Position>;
  readonly #settings: HarvestSettings<Row, Position>;
  /** How many pages it may have on their way now. */
  readonly #windowMax: () => number;
  /** Rings when there may be something to fetch. */
  readonly #room: Bell;
  /** Rings when there may be something to commit. */
  readonly #news = new Bell();
  readonly #stop = new AbortController();
  readonly #startedAt: number;
  #held: Held<Row, Position> | undefined;
  #end: End | undefined;
  #inFlight = 0;
  #pages = 0;
  #retries = 0;

  constructor(
    source: HarvestSource<Row, Position>,
    settings: HarvestSettings<Row, Position>,
    windowMax: () => number,
    room: Bell,
  ) {
    this.source = source;
    this.#settings = settings;
    this.#windowMax = windowMax;
    this.#room = room;
    this.#startedAt = settings.clock.now();
  }

  /** Aborts what it fetches, once it has ended. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get pagesLeft(): number | undefined {
    const position = this.#held?.checkpoint.position ?? this.source.from;
    return this.source.pagesLeft?.(position);
  }

  get stats(): HarvestSourceStats<Position> {
    const checkpoint = this.#held?.checkpoint;
    const left = this.pagesLeft;
    const spentMs = this.#settings.clock.now() - this.#startedAt;
    const isKnown = left !== undefined && (this.#pages > 0 || left === 0);
    return {
      name: this.source.name,
      status: this.#end?.status ?? 'running',
      position: checkpoint?.position,
      inFlight: this.#inFlight,
      window: this.#held?.window.size ?? 0,
      pages: this.#pages,
      rows: checkpoint?.rows ?? 0,
      retries: this.#retries,
      gaps: checkpoint?.gaps.length ?? 0,
      etaMs: isKnown ? (left * spentMs) / Math.max(1, this.#pages) : undefined,
    };
  }

  /** When it may have a page to fetch. */
  get readyAt(): number {
    const isFull = this.#inFlight >= this.#settings.pagesMax;
    if (this.#held === undefined || this.#end !== undefined || isFull) return Infinity;
    return this.#held.window.readyAt(this.#windowMax());
  }

  /** A page to fetch; whoever takes it says how it went. */
  take(now: number): HarvestSlot<Row, Position> | undefined {
    if (this.readyAt > now) return undefined;
    const slot = this.#held?.window.take(now, this.#windowMax());
    if (slot !== undefined) this.#inFlight += 1;
    return slot;
  }

  succeed(slot: HarvestSlot<Row, Position>, answer: HarvestAnswer<Row, Position>): void {
    this.#inFlight -= 1;
    if (this.#end !== undefined) return;
    slot.answer = answer;
    this.#finish(slot);
  }

  /** It was not asked for at all: that is no attempt. */
  refuse(slot: HarvestSlot<Row, Position>): void {
    this.#inFlight -= 1;
    this.#held?.window.giveBack(slot, slot.notBefore);
  }

  fail(slot: HarvestSlot<Row, Position>, error: unknown): void {
    const { attemptsMax, backoffMs, backoffMsMax, mode, clock, random } = this.#settings;
    this.#inFlight -= 1;
    // What fails once it is over was aborted, which says nothing.
    if (this.#end !== undefined) return;
    slot.attempts += 1;
    const where = `${this.source.name} at ${JSON.stringify(slot.page.from)}`;
    const why = error instanceof Error ? error.message : String(error);
    if (isFinal(error)) {
      this.end(
        'failed',
        new SpillwayError('HARVEST_REFUSED', `${where}: ${why}`, { cause: error }),
      );
    } else if (slot.attempts < attemptsMax) {
      this.#retries += 1;
      const waitMs = random() * Math.min(backoffMsMax, backoffMs * 2 ** (slot.attempts - 1));
      this.#held?.window.giveBack(slot, clock.now() + (retryAfterMsOf(error) ?? 0) + waitMs);
    } else if (slot.gap !== undefined || (mode === 'prefix' && slot.page.to !== undefined)) {
      slot.reason = why;
      this.#finish(slot);
    } else {
      const message = `${where}: given up after ${slot.attempts} attempts: ${why}`;
      this.end('failed', new SpillwayError('HARVEST_PAGE_FAILED', message, { cause: error }));
    }
  }

  /** Ends it early: what is complete is committed, the rest is left for another time. */
  end(status: HarvestStatus, error: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { status, error };
    this.#stop.abort(error);
    this.#news.ring();
  }

  /** Takes the lease, and commits what comes until the source ends; never rejects. */
  async run(): Promise<HarvestOutcome<Position>> {
    const { store, leaseMs: ttlMs, clock, random } = this.#settings;
    try {
      const options = { store, name: `harvest/${this.source.name}`, ttlMs, queueMax: 0 };
      await using lease = await Lease.acquire({ ...options, clock, random }, this.signal);
      await this.#hold(lease);
    } catch (error) {
      this.end(field(error, 'code') === 'LEASE_HELD' ? 'skipped' : 'failed', error);
    }
    this.end('done', undefined);
    this.#room.ring();
    const checkpoint = this.#held?.checkpoint;
    const committed = checkpoint?.commits === 0 ? undefined : checkpoint;
    return { source: this.source.name, checkpoint: committed, ...(this.#end as End) };
  }

  async #hold(lease: Lease): Promise<void> {
    const lose = () => this.end('failed', lease.signal.reason);
    lease.signal.addEventListener('abort', lose, { once: true });
    try {
      const held = await this.#load(lease);
      this.#held = held;
      this.#room.ring();
      await this.#deliver(held);
    } finally {
      // Releasing it is no loss.
      lease.signal.removeEventListener('abort', lose);
    }
  }

  async #load(lease: Lease): Promise<Held<Row, Position>> {
    const { source } = this;
    const { sink, fillsGaps, attemptMsMax, clock } = this.#settings;
    using limit = deadline(clock, attemptMsMax, this.signal);
    const loaded = await untilAborted(sink.load(source.name, limit.signal), limit.signal);
    if (loaded !== undefined && loaded.fence > lease.fence) {
      const message = `${source.name}: its checkpoint is of fence ${loaded.fence}, not ${lease.fence}`;
      throw new SpillwayError('HARVEST_STALE', message);
    }
    const none = { position: source.from, isEnd: false, gaps: [], commits: 0, rows: 0, fence: 0 };
    const checkpoint = loaded ?? { source: source.name, ...none };
    const next = checkpoint.isEnd ? undefined : checkpoint.position;
    const window = new HarvestWindow(source, next, fillsGaps ? checkpoint.gaps : []);
    return { lease, window, checkpoint };
  }

  async #deliver(held: Held<Row, Position>): Promise<void> {
    while (!held.lease.signal.aborted) {
      const slots = this.#due(held.window);
      if (slots.length > 0) await this.#commit(held, slots);
      else if (this.#end !== undefined || held.window.isEmpty) return;
      else await this.#news.heard(this.#settings.clock, this.#batchMsLeft(held.window));
    }
  }

  /** The pages to commit now; none while a better batch may come. */
  #due(window: HarvestWindow<Row, Position>): readonly HarvestSlot<Row, Position>[] {
    const { mode, batchPages } = this.#settings;
    const slots = window.prefix(batchPages);
    const isWhole = slots.length === batchPages || slots[0]?.gap !== undefined;
    if (isWhole || window.endsWith(slots.length)) return slots;
    if (mode === 'strict') return [];
    // A batch that takes up half of the window is not worth a standstill.
    const isCrowded = 2 * slots.length >= this.#windowMax();
    const isDue = this.#end !== undefined || isCrowded || this.#batchMsLeft(window) <= 0;
    return isDue ? slots : [];
  }

  #batchMsLeft(window: HarvestWindow<Row, Position>): number {
    const { mode, batchMsMax, clock } = this.#settings;
    const endedAt = window.prefix(1)[0]?.endedAt;
    if (mode === 'strict' || endedAt === undefined) return Infinity;
    return Math.max(0, endedAt + batchMsMax - clock.now());
  }

  async #commit(
    held: Held<Row, Position>,
    slots: readonly HarvestSlot<Row, Position>[],
  ): Promise<void> {
    const { lease, window } = held;
    const { sink, attemptsMax, attemptMsMax, backoffMs, backoffMsMax } = this.#settings;
    const { clock, random, gapsMax } = this.#settings;
    const fence = { name: lease.name, fence: lease.fence };
    const next = nextCheckpoint(held.checkpoint, slots, lease.fence);
    if (next.gaps.length > Math.max(gapsMax, held.checkpoint.gaps.length)) {
      const message = `${this.source.name}: ${next.gaps.length} gaps, ${gapsMax} may be noted`;
      throw new SpillwayError('HARVEST_GAPS', message);
    }
    const batch = harvestBatch(held.checkpoint, slots, next.position);
    // Not even a stop interrupts a commit, since nobody would know if it was done.
    const options = { attemptsMax, backoffMs, backoffMsMax, signal: lease.signal, clock, random };
    await retry(async (signal) => {
      using limit = deadline(clock, attemptMsMax, signal);
      lease.guard([]);
      await untilAborted(sink.commit(batch, next, fence, limit.signal), limit.signal);
    }, options);
    held.checkpoint = next;
    this.#pages += slots.length;
    window.drop(slots.length);
    this.#room.ring();
  }

  #finish(slot: HarvestSlot<Row, Position>): void {
    this.#held?.window.end(slot, this.#settings.clock.now());
    this.#news.ring();
  }
}

/** The same question would get the same answer. */
function isFinal(error: unknown): boolean {
  const retryable = field(error, 'retryable');
  if (typeof retryable === 'boolean') return !retryable;
  const status = statusOf(error) ?? 500;
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}
