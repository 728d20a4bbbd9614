import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import type { Json } from '../base/json.ts';
import type {
  HarvestAnswer,
  HarvestBatch,
  HarvestCheckpoint,
  HarvestGap,
  HarvestPage,
  HarvestSource,
} from './source.ts';

// Rows and positions are of a type that only the source and the sink know: here they are passed on.
export type Source = HarvestSource<unknown, Json>;
export type Answer = HarvestAnswer<unknown, Json>;
export type Checkpoint = HarvestCheckpoint<Json>;
type Gap = HarvestGap<Json>;

/** A page that was asked for and is not committed. */
export interface Slot {
  readonly page: HarvestPage<Json>;
  /** The gap it fills, if it fills one. */
  readonly gap: Gap | undefined;
  /** Its place in the order of delivery. */
  readonly order: number;
  /** Attempts that have failed. */
  attempts: number;
  /** Probes of an open breaker that have failed; they are no attempts. */
  probes: number;
  /** Time before which it is not fetched again. */
  notBefore: number;
  takenAt: number;
  /** Fetches of it in flight. */
  copies: number;
  /** True if it was fetched beside a fetch that took long. */
  isHedged: boolean;
  /** Time at which its answer came, or it was given up; undefined before. */
  endedAt: number | undefined;
  /** Undefined for one that was given up, for this reason. */
  answer: Answer | undefined;
  reason: string;
}

/** A fetch that takes longer than this many times the mean is late. */
const lateness = 2;
/** The weight of one more fetch in the mean. */
const weight = 1 / 16;

/** The pages of a source that are asked for and not committed, in order of delivery. */
export class Window {
  readonly #source: Source;
  readonly #slots: Slot[] = [];
  /** The pages that wait to be fetched again. */
  readonly #returned = new Set<Slot>();
  readonly #gaps: Gap[];
  /** Start of the next page; undefined until an answer tells, and at the end. */
  #next: Json | undefined;
  #order = 0;
  /** Mean duration of a fetch; undefined before the first. */
  #meanMs: number | undefined;

  constructor(source: Source, next: Json | undefined, gaps: readonly Gap[]) {
    this.#source = source;
    this.#next = next;
    this.#gaps = [...gaps];
  }

  get size(): number {
    return this.#slots.length;
  }

  /** True when there is nothing left to ask for or to commit. */
  get isEmpty(): boolean {
    return this.endsWith(0);
  }

  /** Time from which there may be a page to fetch; Infinity until something else has happened. */
  readyAt(sizeMax: number): number {
    if (this.#slots.length < sizeMax && this.#hasMore) return -Infinity;
    return Math.min(Infinity, ...[...this.#returned].map((slot) => slot.notBefore));
  }

  /** Time from which a page of a full window is late, and may be fetched once more. */
  hedgeAt(sizeMax: number): number {
    const late = this.#slots.length < sizeMax ? undefined : this.#hedgeable();
    if (late === undefined || this.#meanMs === undefined) return Infinity;
    return late.takenAt + lateness * this.#meanMs;
  }

  /**
   * Gives a page to fetch: the first that has to be fetched again, or a new one, or in a full
   * window one that is late, since nobody else would use the token.
   */
  take(now: number, sizeMax: number): Slot | undefined {
    const slot = this.#takeReturned(now) ?? this.#plan(sizeMax) ?? this.#takeLate(now, sizeMax);
    if (slot === undefined) return undefined;
    slot.takenAt = now;
    slot.copies += 1;
    return slot;
  }

  #takeReturned(now: number): Slot | undefined {
    let first: Slot | undefined;
    for (const slot of this.#returned) {
      if (slot.notBefore <= now && slot.order < (first?.order ?? Infinity)) first = slot;
    }
    if (first !== undefined) this.#returned.delete(first);
    return first;
  }

  #takeLate(now: number, sizeMax: number): Slot | undefined {
    if (this.hedgeAt(sizeMax) > now) return undefined;
    const late = this.#hedgeable();
    if (late !== undefined) late.isHedged = true;
    return late;
  }

  #hedgeable(): Slot | undefined {
    return this.#slots.find(({ copies, isHedged }) => copies > 0 && !isHedged);
  }

  /** Notes that the page is to be fetched again, not before that time. */
  giveBack(slot: Slot, notBefore: number): void {
    slot.notBefore = notBefore;
    this.#returned.add(slot);
  }

  /** Notes that the answer has come, or that the page was given up. */
  end(slot: Slot, at: number): void {
    const ms = at - slot.takenAt;
    this.#meanMs = this.#meanMs === undefined ? ms : this.#meanMs + (ms - this.#meanMs) * weight;
    slot.endedAt = at;
    if (slot.page.to === undefined && slot.answer?.isEnd !== true) this.#next = slot.answer?.next;
  }

  /** The complete pages at the start, at most `max`; one that fills a gap is alone. */
  prefix(max: number): readonly Slot[] {
    const [first] = this.#slots;
    const countMax = first?.gap === undefined ? max : 1;
    const slots = this.#slots.slice(0, countMax);
    const open = slots.findIndex((slot) => slot.endedAt === undefined);
    return open < 0 ? slots : slots.slice(0, open);
  }

  /** Forgets pages from the start: they are committed. */
  drop(count: number): void {
    this.#slots.splice(0, count);
  }

  /** True if a batch of that many would be the last for now. */
  endsWith(count: number): boolean {
    return count === this.#slots.length && !this.#hasMore;
  }

  get #hasMore(): boolean {
    if (this.#gaps.length > 0) return true;
    return this.#next !== undefined && this.#source.pageAt(this.#next) !== undefined;
  }

  #plan(sizeMax: number): Slot | undefined {
    if (this.#slots.length >= sizeMax) return undefined;
    const gap = this.#gaps.shift();
    const page = gap ?? (this.#next === undefined ? undefined : this.#source.pageAt(this.#next));
    if (page === undefined) return undefined;
    if (gap === undefined) this.#next = page.to;
    const begun = {
      attempts: 0,
      probes: 0,
      notBefore: -Infinity,
      takenAt: 0,
      copies: 0,
      isHedged: false,
    };
    const open = { endedAt: undefined, answer: undefined, reason: '' };
    const slot = { page, gap, order: this.#order++, ...begun, ...open };
    this.#slots.push(slot);
    return slot;
  }
}

/** Makes the checkpoint to commit with these pages. */
export function nextCheckpoint(
  before: Checkpoint,
  slots: readonly Slot[],
  fence: number,
): Checkpoint {
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

/** True if the checkpoint has changed: a source at its end may be asked again and again. */
export function hasMoved(before: Checkpoint, next: Checkpoint): boolean {
  const { commits, fence } = before;
  return !isDeepStrictEqual(before, { ...next, commits, fence });
}

/** Lists the gaps that a page leaves. */
function gapsOf(slot: Slot): Gap[] {
  const { page, answer, reason } = slot;
  if (answer !== undefined) {
    return (answer.missing ?? []).map((part) => ({ ...part, reason: 'not there' }));
  }
  // Only a page whose end is known can be passed over.
  return [{ from: page.from, to: page.to as Json, reason }];
}

/** Makes the batch that the sink gets for these pages. */
export function harvestBatch(
  before: Checkpoint,
  slots: readonly Slot[],
  to: Json,
): HarvestBatch<unknown, Json> {
  const gap = slots[0]?.gap;
  const pages = slots.flatMap(({ page, answer }) =>
    answer === undefined || answer.rows.length === 0
      ? []
      : [{ from: page.from, rows: answer.rows }],
  );
  const range = gap ?? { from: before.position, to };
  return { source: before.source, from: range.from, to: range.to, isGap: gap !== undefined, pages };
}

/** Wakes one listener. A notification that comes before the listener waits is kept for it. */
export class Notifier {
  #notified = Promise.withResolvers<void>();

  notify(): void {
    this.#notified.resolve();
  }

  /** Resolves at the next notification, or after `ms`. */
  async wait(clock: Clock, ms: number): Promise<void> {
    const { promise, resolve } = this.#notified;
    using _timer = clock.after(ms, resolve);
    await promise;
    this.#notified = Promise.withResolvers<void>();
  }
}
