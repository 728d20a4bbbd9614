import { isDeepStrictEqual } from 'node:util';
import { SpillwayError } from '../base/errors.ts';
import { isFinal } from '../base/failure.ts';
import type { Json } from '../base/json.ts';
import type { Task } from '../base/task.ts';
import { Retry } from '../outbound/retry.ts';
import type { Lease } from '../shared/lease.ts';
import type { HarvestSettings } from './options.ts';
import type { HarvestBatch, HarvestCheckpoint, HarvestGap } from './sink.ts';
import type { HarvestSource } from './source.ts';
import { type HarvestSlot, HarvestWindow, Notifier } from './window.ts';

/** Commits the pages of one source in order, as long as it holds the lease. */
export class HarvestDelivery<Row, Position extends Json> {
  readonly window: HarvestWindow<Row, Position>;
  /** As it was last committed. */
  checkpoint: HarvestCheckpoint<Position>;
  /** Pages committed. */
  pages = 0;
  readonly #settings: HarvestSettings<Row, Position>;
  readonly #lease: Lease;
  /** Notified when there may be something to commit. */
  readonly #news = new Notifier();
  #isStopped = false;

  private constructor(
    source: HarvestSource<Row, Position>,
    settings: HarvestSettings<Row, Position>,
    lease: Lease,
    checkpoint: HarvestCheckpoint<Position>,
  ) {
    this.#settings = settings;
    this.#lease = lease;
    this.checkpoint = checkpoint;
    const next = checkpoint.isEnd ? undefined : checkpoint.position;
    this.window = new HarvestWindow(source, next, settings.fillsGaps ? checkpoint.gaps : []);
  }

  /** Goes on where the last commit ended. */
  static async begin<Row, Position extends Json>(
    source: HarvestSource<Row, Position>,
    settings: HarvestSettings<Row, Position>,
    lease: Lease,
    signal: AbortSignal,
  ): Promise<HarvestDelivery<Row, Position>> {
    const { name, from } = source;
    const loaded = await ask(settings, (limit) => settings.sink.load(name, limit), signal);
    if (loaded !== undefined && loaded.fence > lease.fence) {
      const message = `${name}: its checkpoint is of fence ${loaded.fence}, not ${lease.fence}`;
      throw new SpillwayError('HARVEST_STALE', message);
    }
    const none = { position: from, isEnd: false, gaps: [], commits: 0, rows: 0, fence: 0 };
    return new HarvestDelivery(source, settings, lease, loaded ?? { source: name, ...none });
  }

  /** The page has come, or was given up. */
  end(slot: HarvestSlot<Row, Position>): void {
    this.window.end(slot, this.#settings.clock.now());
    this.#news.notify();
  }

  /** Nothing more will come: commits what is complete, and ends. */
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
  #due(windowMax: number): readonly HarvestSlot<Row, Position>[] {
    const { mode, batchPages } = this.#settings;
    const slots = this.window.prefix(batchPages);
    const isWhole = slots.length === batchPages || slots[0]?.gap !== undefined;
    if (isWhole || this.window.endsWith(slots.length)) return slots;
    if (mode === 'strict') return [];
    // A batch that takes up half of the window is not worth a standstill.
    const isCrowded = 2 * slots.length >= windowMax;
    return this.#isStopped || isCrowded || this.#batchMsLeft() <= 0 ? slots : [];
  }

  #batchMsLeft(): number {
    const { mode, batchMsMax, clock } = this.#settings;
    const endedAt = this.window.prefix(1)[0]?.endedAt;
    if (mode === 'strict' || endedAt === undefined) return Infinity;
    return Math.max(0, endedAt + batchMsMax - clock.now());
  }

  async #commit(slots: readonly HarvestSlot<Row, Position>[]): Promise<void> {
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

/** Asks the sink, again and again where that may help. */
function ask<T, Row, Position extends Json>(
  settings: HarvestSettings<Row, Position>,
  task: Task<T>,
  signal: AbortSignal,
): Promise<T> {
  const { attemptsMax, attemptMsMax, backoffMs, backoffMsMax, clock, random } = settings;
  const isRetryable = (error: unknown) => !isFinal(error);
  const times = { attemptsMax, attemptMsMax, backoffMs, backoffMsMax };
  return new Retry({ ...times, isRetryable, clock, random }).run(task, { signal });
}

/** Makes the checkpoint that is true once these pages are committed. */
function nextCheckpoint<Row, Position>(
  before: HarvestCheckpoint<Position>,
  slots: readonly HarvestSlot<Row, Position>[],
  fence: number,
): HarvestCheckpoint<Position> {
  const filled = new Set(slots.map((slot) => slot.gap));
  const gaps = before.gaps.filter((gap) => !filled.has(gap)).concat(slots.flatMap(gapsOf));
  let { position, isEnd, rows } = before;
  for (const { gap, page, answer } of slots) {
    rows += answer?.rows.length ?? 0;
    if (gap !== undefined) continue;
    position = page.to ?? answer?.next ?? page.from;
    isEnd = page.to === undefined && answer?.next === undefined;
  }
  return { ...before, position, isEnd, gaps, commits: before.commits + 1, rows, fence };
}

/** Whether there is anything to commit: a source at its end may be asked again and again. */
function hasMoved<Position>(
  before: HarvestCheckpoint<Position>,
  next: HarvestCheckpoint<Position>,
): boolean {
  const { commits, fence } = before;
  return !isDeepStrictEqual(before, { ...next, commits, fence });
}

/** Lists the gaps that a page leaves. */
function gapsOf<Row, Position>(slot: HarvestSlot<Row, Position>): HarvestGap<Position>[] {
  const { page, answer, reason } = slot;
  if (answer !== undefined) {
    return (answer.missing ?? []).map((part) => ({ ...part, reason: 'not there' }));
  }
  // Only a page whose end is known can be passed over.
  return [{ from: page.from, to: page.to as Position, reason }];
}

/** Makes the batch that the sink gets for these pages. */
function harvestBatch<Row, Position>(
  before: HarvestCheckpoint<Position>,
  slots: readonly HarvestSlot<Row, Position>[],
  to: Position,
): HarvestBatch<Row, Position> {
  const gap = slots[0]?.gap;
  const pages = slots.flatMap(({ page, answer }) =>
    answer === undefined || answer.rows.length === 0
      ? []
      : [{ from: page.from, rows: answer.rows }],
  );
  const range = gap ?? { from: before.position, to };
  return { source: before.source, from: range.from, to: range.to, isGap: gap !== undefined, pages };
}
