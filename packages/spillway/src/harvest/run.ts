import { SpillwayError } from '../base/errors.ts';
import { field, isFinal, retryAfterMsOf } from '../base/failure.ts';
import type { Json } from '../base/json.ts';
import { Lease } from '../shared/lease.ts';
import { HarvestDelivery } from './delivery.ts';
import type { HarvestSettings } from './options.ts';
import type { HarvestCheckpoint } from './sink.ts';
import type { HarvestAnswer, HarvestSource } from './source.ts';
import type { HarvestSlot, Notifier } from './window.ts';

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

/** One source on its way: it says which page is next, and commits what has come, in order. */
export class HarvestRun<Row, Position extends Json> {
  readonly source: HarvestSource<Row, Position>;
  readonly #settings: HarvestSettings<Row, Position>;
  /** How many pages it may have on their way now. */
  readonly #windowMax: () => number;
  /** Notified when there may be something to fetch. */
  readonly #room: Notifier;
  readonly #stop = new AbortController();
  readonly #startedAt: number;
  #delivery: HarvestDelivery<Row, Position> | undefined;
  #end: End | undefined;
  #inFlight = 0;
  #retries = 0;

  constructor(
    source: HarvestSource<Row, Position>,
    settings: HarvestSettings<Row, Position>,
    windowMax: () => number,
    room: Notifier,
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
    const position = this.#delivery?.checkpoint.position ?? this.source.from;
    return this.source.pagesLeft?.(position);
  }

  get stats(): HarvestSourceStats<Position> {
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
      window: this.#delivery?.window.size ?? 0,
      pages,
      rows: checkpoint?.rows ?? 0,
      retries: this.#retries,
      gaps: checkpoint?.gaps.length ?? 0,
      etaMs: isKnown ? (left * spentMs) / Math.max(1, pages) : undefined,
    };
  }

  /** When it may have a page to fetch. */
  get readyAt(): number {
    const window = this.#mayTake ? this.#delivery?.window : undefined;
    return window?.readyAt(this.#windowMax()) ?? Infinity;
  }

  /** When it may have a late page to fetch once more, if nobody has anything better to do. */
  get hedgeAt(): number {
    const window = this.#mayTake ? this.#delivery?.window : undefined;
    return window?.hedgeAt(this.#windowMax()) ?? Infinity;
  }

  get #mayTake(): boolean {
    return this.#end === undefined && this.#inFlight < this.#settings.pagesMax;
  }

  /** A page to fetch; whoever takes it says how it went. */
  take(now: number): HarvestSlot<Row, Position> | undefined {
    if (!this.#mayTake) return undefined;
    const slot = this.#delivery?.window.take(now, this.#windowMax());
    if (slot !== undefined) this.#inFlight += 1;
    return slot;
  }

  succeed(slot: HarvestSlot<Row, Position>, answer: HarvestAnswer<Row, Position>): void {
    if (this.#isOver(slot)) return;
    slot.answer = answer;
    this.#delivery?.end(slot);
  }

  /** It was not asked for at all: that is no attempt. */
  refuse(slot: HarvestSlot<Row, Position>): void {
    if (this.#isOver(slot)) return;
    if (slot.copies === 0) this.#delivery?.window.giveBack(slot, slot.notBefore);
    else slot.isHedged = false;
  }

  fail(slot: HarvestSlot<Row, Position>, error: unknown): void {
    const { attemptsMax, backoffMs, backoffMsMax, mode, clock, random } = this.#settings;
    if (this.#isOver(slot)) return;
    slot.attempts += 1;
    const where = `${this.source.name} at ${JSON.stringify(slot.page.from)}`;
    const why = error instanceof Error ? error.message : String(error);
    if (isFinal(error)) {
      this.end(
        'failed',
        new SpillwayError('HARVEST_REFUSED', `${where}: ${why}`, { cause: error }),
      );
    } else if (slot.copies > 0) {
      // The other fetch of this page decides.
      this.#retries += 1;
    } else if (slot.attempts < attemptsMax) {
      this.#retries += 1;
      const waitMs = random() * Math.min(backoffMsMax, backoffMs * 2 ** (slot.attempts - 1));
      this.#delivery?.window.giveBack(slot, clock.now() + (retryAfterMsOf(error) ?? 0) + waitMs);
    } else if (slot.gap !== undefined || (mode === 'prefix' && slot.page.to !== undefined)) {
      slot.reason = why;
      this.#delivery?.end(slot);
    } else {
      const message = `${where}: given up after ${slot.attempts} attempts: ${why}`;
      this.end('failed', new SpillwayError('HARVEST_PAGE_FAILED', message, { cause: error }));
    }
  }

  /** Whether nothing depends on this fetch any more: what fails after a stop was only aborted. */
  #isOver(slot: HarvestSlot<Row, Position>): boolean {
    this.#inFlight -= 1;
    slot.copies -= 1;
    return this.#end !== undefined || slot.endedAt !== undefined;
  }

  /** Ends it early: what is complete is committed, the rest is left for another time. */
  end(status: HarvestStatus, error: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { status, error };
    this.#stop.abort(error);
    this.#delivery?.stop();
  }

  /** Takes the lease, and commits what comes until the source ends; never rejects. */
  async run(): Promise<HarvestOutcome<Position>> {
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
    const checkpoint = this.#delivery?.checkpoint;
    const committed = checkpoint?.commits === 0 ? undefined : checkpoint;
    return { source: this.source.name, checkpoint: committed, ...(this.#end as End) };
  }

  async #hold(lease: Lease): Promise<void> {
    const lose = () => this.end('failed', lease.signal.reason);
    const { source, signal } = this;
    const notify = () => this.#room.notify();
    lease.signal.addEventListener('abort', lose, { once: true });
    try {
      this.#delivery = await HarvestDelivery.begin(source, this.#settings, lease, signal);
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
