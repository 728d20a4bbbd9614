import { SpillwayError } from '../base/errors.ts';
import { field, isFinal, retryAfterMsOf } from '../base/failure.ts';
import type { Json } from '../base/json.ts';
import type { Task } from '../base/task.ts';
import { Retry } from '../outbound/retry.ts';
import { Lease } from '../shared/lease.ts';
import type { Settings } from './harvest.ts';
import type { HarvestCheckpoint } from './source.ts';
import {
  type Answer,
  type Checkpoint,
  harvestBatch,
  hasMoved,
  Notifier,
  nextCheckpoint,
  type Slot,
  type Source,
  Window,
} from './window.ts';

/** The end of a source: `skipped` when another process holds its lease. */
export type HarvestStatus = 'done' | 'failed' | 'skipped' | 'stopped';

/** The state of a harvest when it has ended. */
export interface HarvestOutcome<Position> {
  readonly source: string;
  readonly status: HarvestStatus;
  /** The last committed one; undefined if there is none, or the lease was not acquired. */
  readonly checkpoint: HarvestCheckpoint<Position> | undefined;
  /** The reason why it failed, was stopped or was skipped. */
  readonly error: unknown;
}

export interface HarvestSourceStats<Position> {
  readonly name: string;
  readonly status: HarvestStatus | 'running';
  /** The start of the next commit; undefined until the lease is acquired. */
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
  /** Milliseconds until it is done, at its pace so far; undefined if that is not known. */
  readonly etaMs: number | undefined;
}

/** The number of probes of a page for each attempt that it has. */
const probesPerAttempt = 10;

/** The run of one source: chooses its next page, and commits the answers in order. */
export class Run {
  readonly source: Source;
  readonly #settings: Settings;
  /** Number of pages that may be asked for and not committed, now. */
  readonly #windowMax: () => number;
  /** Notified when there may be something to fetch. */
  readonly #room: Notifier;
  readonly #stop = new AbortController();
  readonly #startedAt: number;
  #delivery: Delivery | undefined;
  #end: Pick<HarvestOutcome<Json>, 'status' | 'error'> | undefined;
  #inFlight = 0;
  #retries = 0;

  constructor(source: Source, settings: Settings, windowMax: () => number, room: Notifier) {
    this.source = source;
    this.#settings = settings;
    this.#windowMax = windowMax;
    this.#room = room;
    this.#startedAt = settings.clock.now();
  }

  /** Aborts the fetches of the run once it has ended. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Pages asked for and not committed. */
  get window(): number {
    return this.#delivery?.window.size ?? 0;
  }

  get pagesLeft(): number | undefined {
    const position = this.#delivery?.checkpoint.position ?? this.source.from;
    return this.source.pagesLeft?.(position);
  }

  get stats(): HarvestSourceStats<Json> {
    const checkpoint = this.#delivery?.checkpoint;
    const left = this.pagesLeft;
    const spentMs = this.#settings.clock.now() - this.#startedAt;
    const pages = this.#delivery?.pages ?? 0;
    const isKnown = left !== undefined && (pages > 0 || left === 0);
    return {
      name: this.source.name,
      status: this.#end?.status ?? 'running',
      position: checkpoint?.position,
      inFlight: this.#inFlight,
      window: this.window,
      pages,
      rows: checkpoint?.rows ?? 0,
      retries: this.#retries,
      gaps: checkpoint?.gaps.length ?? 0,
      etaMs: isKnown ? (left * spentMs) / Math.max(1, pages) : undefined,
    };
  }

  /** The time at which there may be a page to fetch. */
  get readyAt(): number {
    return this.#openWindow?.readyAt(this.#windowMax()) ?? Infinity;
  }

  /** The time at which a late page may be fetched once more, if no source has another page. */
  get hedgeAt(): number {
    return this.#openWindow?.hedgeAt(this.#windowMax()) ?? Infinity;
  }

  /** The window, if pages may be taken from it now. */
  get #openWindow(): Window | undefined {
    const mayTake = this.#end === undefined && this.#inFlight < this.#settings.pagesMax;
    return mayTake ? this.#delivery?.window : undefined;
  }

  /** Takes a page to fetch; the caller then calls `succeed`, `fail` or `refuse`. */
  take(now: number): Slot | undefined {
    const slot = this.#openWindow?.take(now, this.#windowMax());
    if (slot !== undefined) this.#inFlight += 1;
    return slot;
  }

  succeed(slot: Slot, answer: Answer): void {
    if (this.#isOver(slot)) return;
    slot.answer = answer;
    this.#delivery?.end(slot);
  }

  /** Returns a page that was not fetched at all, which is no attempt. */
  refuse(slot: Slot): void {
    if (this.#isOver(slot)) return;
    if (slot.copies === 0) this.#delivery?.window.giveBack(slot, slot.notBefore);
    else slot.isHedged = false;
  }

  /**
   * Notes a failed fetch. A probe of an open breaker is no attempt: during an outage all fetches
   * are probes, whatever the page. Their number is bounded for a page that always fails and is the
   * only one left.
   */
  fail(slot: Slot, error: unknown, isProbe: boolean): void {
    const { attemptsMax, backoffMs, backoffMsMax, mode, clock, random } = this.#settings;
    if (this.#isOver(slot)) return;
    if (isProbe && slot.probes < probesPerAttempt * attemptsMax) slot.probes += 1;
    else slot.attempts += 1;
    const where = `${this.source.name} at ${JSON.stringify(slot.page.from)}`;
    const why = error instanceof Error ? error.message : String(error);
    if (isFinal(error)) {
      const refused = new SpillwayError('HARVEST_REFUSED', `${where}: ${why}`, { cause: error });
      this.end('failed', refused);
    } else if (slot.copies > 0) {
      // The other fetch of this page decides.
      this.#retries += 1;
    } else if (slot.attempts < attemptsMax) {
      this.#retries += 1;
      const doubled = backoffMs * 2 ** Math.max(0, slot.attempts - 1);
      const waitMs = (retryAfterMsOf(error) ?? 0) + random() * Math.min(backoffMsMax, doubled);
      this.#delivery?.window.giveBack(slot, clock.now() + waitMs);
    } else if (slot.gap !== undefined || (mode === 'prefix' && slot.page.to !== undefined)) {
      slot.reason = why;
      this.#delivery?.end(slot);
    } else {
      const message = `${where}: given up after ${slot.attempts} attempts: ${why}`;
      this.end('failed', new SpillwayError('HARVEST_PAGE_FAILED', message, { cause: error }));
    }
  }

  /** True if the outcome of this fetch does not matter: the run or the page has ended already. */
  #isOver(slot: Slot): boolean {
    this.#inFlight -= 1;
    slot.copies -= 1;
    return this.#end !== undefined || slot.endedAt !== undefined;
  }

  /** Ends the run early: complete pages are committed, the rest is left for another harvest. */
  end(status: HarvestStatus, error: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { status, error };
    this.#stop.abort(error);
    this.#delivery?.stop();
  }

  /** Takes the lease, and commits answers until the source ends; never rejects. */
  async run(): Promise<HarvestOutcome<Json>> {
    const { store, leaseMs: ttlMs, clock, random } = this.#settings;
    try {
      const name = `harvest/${this.source.name}`;
      const { signal } = this;
      const options = { store, name, ttlMs, waits: false, clock, random, signal };
      await using lease = await Lease.acquire(options);
      await this.#hold(lease);
    } catch (error) {
      this.end(field(error, 'code') === 'LEASE_HELD' ? 'skipped' : 'failed', error);
    }
    this.end('done', undefined);
    this.#room.notify();
    const committed = this.#delivery?.checkpoint;
    const checkpoint = committed?.commits === 0 ? undefined : committed;
    const { status, error } = this.#end ?? { status: 'done', error: undefined };
    return { source: this.source.name, status, checkpoint, error };
  }

  async #hold(lease: Lease): Promise<void> {
    const lose = () => this.end('failed', lease.signal.reason);
    const { source, signal } = this;
    const { sink } = this.#settings;
    const { name, from: position } = source;
    const notify = () => this.#room.notify();
    lease.signal.addEventListener('abort', lose, { once: true });
    try {
      const loaded = await ask(this.#settings, (limit) => sink.load(name, limit), signal);
      if (loaded !== undefined && loaded.fence > lease.fence) {
        const message = `${name}: its checkpoint is of fence ${loaded.fence}, not ${lease.fence}`;
        throw new SpillwayError('HARVEST_STALE', message);
      }
      const none = { position, isEnd: false, gaps: [], commits: 0, rows: 0, fence: 0 };
      const checkpoint = loaded ?? { source: name, ...none };
      this.#delivery = new Delivery(source, this.#settings, lease, checkpoint);
      notify();
      // It may have been stopped since the checkpoint was read.
      if (signal.aborted) this.#delivery.stop();
      await this.#delivery.run(this.#windowMax, notify);
    } finally {
      // Releasing it is no loss.
      lease.signal.removeEventListener('abort', lose);
    }
  }
}

/** Commits the pages of one source in order, as long as it holds the lease. */
class Delivery {
  readonly window: Window;
  /** As it was last committed. */
  checkpoint: Checkpoint;
  /** Pages committed. */
  pages = 0;
  readonly #settings: Settings;
  readonly #lease: Lease;
  /** Notified when there may be something to commit. */
  readonly #news = new Notifier();
  #isStopped = false;

  constructor(source: Source, settings: Settings, lease: Lease, checkpoint: Checkpoint) {
    this.#settings = settings;
    this.#lease = lease;
    this.checkpoint = checkpoint;
    const next = checkpoint.isEnd ? undefined : checkpoint.position;
    this.window = new Window(source, next, settings.fillsGaps ? checkpoint.gaps : []);
  }

  /** Notes that the page has come, or was given up. */
  end(slot: Slot): void {
    this.window.end(slot, this.#settings.clock.now());
    this.#news.notify();
  }

  /** Makes `run` commit the complete pages, and end. */
  stop(): void {
    this.#isStopped = true;
    this.#news.notify();
  }

  /** Resolves when all is committed, or it was stopped; rejects if something cannot be. */
  async run(windowMax: () => number, onCommit: () => void): Promise<void> {
    while (!this.#lease.signal.aborted) {
      const slots = this.#due(windowMax());
      if (slots.length > 0) {
        await this.#commit(slots);
        onCommit();
      } else if (this.#isStopped || this.window.isEmpty) {
        return;
      } else {
        await this.#news.wait(this.#settings.clock, this.#batchMsLeft());
      }
    }
  }

  /** The pages to commit now; none while a better batch may come. */
  #due(windowMax: number): readonly Slot[] {
    const { mode, batchPages } = this.#settings;
    const slots = this.window.prefix(batchPages);
    // No batch is larger than the window, which the size of pages may have narrowed.
    const isFull = slots.length >= Math.min(batchPages, Math.max(1, windowMax));
    const isWhole = isFull || slots[0]?.gap !== undefined;
    if (isWhole || this.window.endsWith(slots.length)) return slots;
    if (mode === 'strict') return [];
    // A batch that fills half of the window is committed, or fetching would soon stand still.
    const isCrowded = 2 * slots.length >= windowMax;
    return this.#isStopped || isCrowded || this.#batchMsLeft() <= 0 ? slots : [];
  }

  #batchMsLeft(): number {
    const { mode, batchMsMax, clock } = this.#settings;
    const endedAt = this.window.prefix(1)[0]?.endedAt;
    if (mode === 'strict' || endedAt === undefined) return Infinity;
    return Math.max(0, endedAt + batchMsMax - clock.now());
  }

  async #commit(slots: readonly Slot[]): Promise<void> {
    const { sink, gapsMax } = this.#settings;
    const { name, fence } = this.#lease;
    const before = this.checkpoint;
    const next = nextCheckpoint(before, slots, fence);
    if (next.gaps.length > Math.max(gapsMax, before.gaps.length)) {
      const message = `${next.source}: ${next.gaps.length} gaps, ${gapsMax} may be noted`;
      throw new SpillwayError('HARVEST_GAPS', message);
    }
    if (hasMoved(before, next)) {
      const batch = harvestBatch(before, slots, next.position);
      const commit: Task<void> = async (limit) => {
        this.#lease.guard([]);
        await sink.commit(batch, next, { name, fence }, limit);
      };
      // Not even a stop interrupts a commit, since nobody would know if it was done.
      await ask(this.#settings, commit, this.#lease.signal);
      this.checkpoint = next;
    }
    this.pages += slots.length;
    this.window.drop(slots.length);
  }
}

/** Calls the sink, with retries. */
function ask<T>(settings: Settings, task: Task<T>, signal: AbortSignal): Promise<T> {
  const { attemptsMax, attemptMsMax, backoffMs, backoffMsMax, clock, random } = settings;
  const isRetryable = (error: unknown) => !isFinal(error);
  const times = { attemptsMax, attemptMsMax, backoffMs, backoffMsMax };
  return new Retry({ ...times, isRetryable, clock, random }).run(task, { signal });
}
