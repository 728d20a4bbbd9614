import { checkLimitOptions, type Limit, type LimitOptions, type Sample } from './limit.ts';
import { type Reading, ReadingWindow } from './reading.ts';

/**
 * Latency over the baseline that is put down to chance, with readings that have no error, and what
 * each bit of error adds. Above it, work is waiting downstream.
 */
const tolerance = 1.25;
const toleranceByError = 10;
const toleranceMost = 2.2;
/** Latency over the baseline at which growth has faded to nothing. */
const growthEnd = 1.15;
const growthEndByError = 7;
/** Size over what Little's law asks for, when it was too large. */
const headroom = 1.1;
const headroomByError = 4;
/** The share of its size that each step of a probe leaves. */
const probeShare = 0.7;
/** Readings until the first probe, and between others. */
const probeAfter = 8;
const probeEvery = 64;
const dropShare = 0.9;
/** Size over what was in use, for a size that is known to be right. */
const provenShare = 1.2;
/** Share of a size that was right with which a downstream is tried that failed. */
const restartShare = 0.4;
/** The share of a deadline that the work itself may take, where a smaller size makes it faster. */
const deadlineShare = 0.6;
/** Weight of one end in the mean share of wasted work. */
const wasteWeight = 0.15;
/** Shares of wasted work: above the first nothing ends in time, below the second all is well. */
const wasteMost = 0.98;
const wasteLeast = 0.5;
/** Share above which probes do not raise the baseline. */
const wasteByChance = 0.15;
/** Share that is reckoned with after one has ended in time again. */
const wasteAfterStuck = 0.8;
/**
 * Ends in time, at least, after which a size that late work has cut doubles; one late end undoes as
 * many.
 */
const inTimeMin = 4;
/** Rise of the share of late work that says that there is too much inside. */
const lateShareMore = 0.2;
/** Least weight of one reading in the latency, where readings differ by chance. */
const readingWeight = 0.25;
const errorMin = 0.05;

/** A reading, and the size it was taken at. */
interface Step extends Reading {
  readonly size: number;
}

/**
 * State of the limit:
 *
 *     starting ──slow reading──> probing ──latency falls no more──> steady
 *     (doubles)                  (shrinks)  <──slow reading──────   (grows a little)
 */
type State =
  | { readonly name: 'starting'; readonly fine: Step | undefined }
  | { readonly name: 'steady' }
  /** `first` is the reading before the probe, `last` the one before the last shrink. */
  | { readonly name: 'probing'; readonly first: Step; readonly last: Step };

/**
 * Finds how much work at once a downstream bears within a deadline. It compares the latency of
 * now with a baseline, doubles at the start and later grows a little while they agree, and falls
 * to what Little's law asks for when they do not.
 *
 * The baseline is measured by a probe: shrink to 0.7, look only at work begun since, and if the
 * latency fell with the size there was a queue downstream; if it did not, this is the time that the
 * work itself takes. Readings are short, so the tolerance follows from how much they differ.
 * While half of the work or more ends too late the size shrinks, whatever the latency says.
 *
 * Work that was cut short gives a lower bound: it counts with the time it took if that is more than
 * usual, and says nothing otherwise, so that nobody can shrink the limit by cancelling calls. When
 * hardly any work ends in time the limit is stuck: its lane then only lets a few callers try.
 */
export class AdaptiveLimit implements Limit {
  #sizeMax: number;
  readonly #sizeMin: number;
  /** Milliseconds within which work is of use: its deadline, or less if callers leave before. */
  deadlineMs: number;
  readonly #window = new ReadingWindow();
  #size: number;
  #state: State = { name: 'starting', fine: undefined };
  /** Work begun before was sent at another size, and is not read. */
  #epochAt = -Infinity;
  #cutAt = -Infinity;
  #baselineMs: number | undefined;
  #baselineMsLowest = Infinity;
  #latencyMs: number | undefined;
  #wasted = 0;
  /** Size that the last reading that was not slow has used, until nothing ends in time. */
  #sizeProven = 0;
  /** Size before late work made it shrink, to go back to when all ends in time again. */
  #sizeBefore = 0;
  /** Ends in time at the size of now, less those that late ones undid. */
  #inTime = 0;
  /** Size at which nothing ended in time. */
  #sizeStuck = Infinity;
  /** Error of the readings, by the mean of the last ones. */
  #error = 0;
  /** Share of work that did not end in time, by the last readings, and its least. */
  #lateShare = 0;
  #lateShareLeast = 1;
  /** Readings since the size has last changed by much. */
  #similar = 0;
  #untilProbe = probeAfter;

  constructor(options: LimitOptions) {
    const { size, sizeMin, sizeMax, deadlineMs } = checkLimitOptions(options);
    this.#sizeMax = sizeMax;
    this.#sizeMin = sizeMin;
    this.deadlineMs = deadlineMs;
    this.#size = size;
  }

  get sizeMax(): number {
    return this.#sizeMax;
  }

  get size(): number {
    return Math.floor(this.#size);
  }

  /** Changes the largest size, and sets the size, as far as that allows, to look on from there. */
  resize(sizeMax: number, size: number, now: number): void {
    this.#sizeMax = Math.max(this.#sizeMin, sizeMax);
    // A probe would go back to the size before it, which may be too large now.
    if (this.#state.name === 'probing') this.#state = { name: 'steady' };
    this.#resize(size, now);
  }

  observe(sample: Sample): void {
    const { outcome, isWhole, startedAt, endedAt } = sample;
    if (outcome === 'failed') return;
    const latencyMs = endedAt - startedAt;
    if (outcome === 'overloaded') {
      // Work begun before the last cut was sent at the old size: a burst of drops is one event.
      if (startedAt >= this.#cutAt) this.#cut(endedAt);
      return;
    }
    if (this.#isWaste(outcome === 'ok', endedAt) || startedAt < this.#epochAt) return;
    // A lower bound below what is usual says nothing of latency, unless there was no more time.
    if (outcome !== 'late' && !isWhole && latencyMs <= (this.#latencyMs ?? 0)) return;
    if (this.#sizeBefore > 0 && this.#goesBack(outcome === 'ok', endedAt)) return;
    const reading = this.#window.add(sample);
    if (reading !== undefined) this.#decide({ ...reading, size: this.#size }, endedAt);
  }

  /** True while nothing ends in time: then only a few should try. */
  get isStuck(): boolean {
    return this.#wasted >= wasteMost;
  }

  /** Doubles the size that late work has cut, once enough ended in time; true if it did. */
  #goesBack(isGood: boolean, at: number): boolean {
    this.#inTime = isGood ? this.#inTime + 1 : Math.max(0, this.#inTime - inTimeMin);
    if (this.#inTime < Math.max(inTimeMin, this.#size)) return false;
    this.#inTime = 0;
    this.#untilProbe = Math.max(this.#untilProbe, probeAfter);
    this.#state = { name: 'steady' };
    this.#resize(Math.min(this.#sizeBefore, 2 * this.#size), at);
    if (this.#size >= this.#sizeBefore) {
      this.#sizeProven = this.#sizeBefore;
      this.#sizeBefore = 0;
    }
    return true;
  }

  /** Counts waste; true if nothing ended in time before, or does not from now on. */
  #isWaste(isGood: boolean, at: number): boolean {
    const wasStuck = this.isStuck;
    this.#wasted += ((isGood ? 0 : 1) - this.#wasted) * wasteWeight;
    if (wasStuck === this.isStuck) return wasStuck;
    if (wasStuck) {
      // One that ended in time may be chance: it takes fewer to be stuck again.
      this.#wasted = wasteAfterStuck;
      return true;
    }
    this.#sizeBefore = Math.max(this.#sizeBefore, this.#sizeProven);
    this.#sizeProven = 0;
    this.#inTime = 0;
    if (this.#size <= this.#sizeBefore) {
      // The downstream failed at a size that was right: it will do again, step by step.
      this.#state = { name: 'steady' };
      this.#resize(this.#sizeBefore * restartShare, at);
    } else {
      this.#state = { name: 'starting', fine: undefined };
      this.#sizeStuck = this.#size;
      this.#resize(this.#size / 2, at);
    }
    return true;
  }

  /** Averages readings of one size, as far as chance makes them differ. */
  #decide(now: Step, at: number): void {
    const latencyMs = this.#latencyMs ?? now.latencyMs;
    this.#similar += 1;
    this.#untilProbe -= 1;
    const weight = now.error < errorMin ? 1 : Math.max(readingWeight, 1 / this.#similar);
    this.#latencyMs = latencyMs + (now.latencyMs - latencyMs) * weight;
    this.#lateShare +=
      (now.lateShare - this.#lateShare) * Math.max(readingWeight, 1 / this.#similar);
    if (this.#similar >= 3) {
      this.#lateShareLeast = Math.min(this.#lateShareLeast, this.#lateShare);
    }
    this.#error = now.error * Math.sqrt(weight / (2 - weight));
    this.#decideBy({ ...now, latencyMs: this.#latencyMs }, at);
  }

  #decideBy(now: Step, at: number): void {
    const state = this.#state;
    // Latency without a baseline, or with one that was measured in a queue, does not show it.
    if (now.lateShare >= wasteLeast && this.#size > this.#sizeMin) {
      this.#state = { name: 'steady' };
      if (this.#sizeBefore === 0) {
        this.#sizeBefore = this.#sizeProven;
        this.#sizeProven = 0;
      }
      this.#inTime = 0;
      this.#resize(Math.min(this.#size, now.inside) * probeShare, at);
      return;
    }
    if (state.name === 'probing') {
      this.#follow(state.first, state.last, now, at);
      return;
    }
    const isUsed = now.inside * 1.5 > this.#size;
    const isSlow =
      now.latencyMs > this.#allowedMs() * (isUsed ? 1 : 1.5) ||
      (isUsed && this.#similar >= 3 && this.#lateShare > this.#lateShareLeast + lateShareMore);
    if (!isSlow) this.#learn(now, isUsed);
    if (!isSlow) this.#sizeProven = Math.min(this.#size, Math.ceil(provenShare * now.inside));
    if (state.name === 'starting') this.#start(now, isSlow, isUsed, state.fine, at);
    else if (isSlow || (isUsed && this.#mustProbe())) this.#shrink(now, now, at);
    else this.#grow(now, at);
  }

  #mustProbe(): boolean {
    const isWasteful = this.#wasted >= wasteLeast;
    return this.#untilProbe <= (isWasteful ? probeEvery - probeAfter : 0);
  }

  get #tolerance(): number {
    return Math.min(toleranceMost, tolerance + toleranceByError * this.#error);
  }

  /** Latency above which there is too much inside. */
  #allowedMs(): number {
    const baselineMs = this.#baselineMs ?? Infinity;
    const room = Math.min(this.#tolerance * baselineMs, deadlineShare * this.deadlineMs);
    return Math.max(1.15 * Math.min(baselineMs, this.deadlineMs), room);
  }

  /** Doubles until the first slow reading, if what there is gets used, and then goes back. */
  #start(now: Step, isSlow: boolean, isUsed: boolean, fine: Step | undefined, at: number): void {
    if (isSlow || now.lateShare > (fine ?? now).lateShare + lateShareMore) {
      this.#state = { name: 'steady' };
      this.#resize(fine?.size ?? this.#size / 2, at);
    } else if (isUsed) {
      const size = this.#size * Math.min(2, 1.5 * this.#growthMax(now));
      const isKnown = size > 0.7 * this.#sizeStuck;
      this.#state = isKnown ? { name: 'steady' } : { name: 'starting', fine: now };
      if (!isKnown) this.#resize(size, at);
    }
  }

  /** Growth that keeps the latency within what is allowed, even if all that is added waits. */
  #growthMax(now: Step): number {
    return Math.max(1, (deadlineShare * this.deadlineMs) / now.latencyMs);
  }

  /** The size that Little's law asks for: of those inside, as many as were not waiting. */
  #fit(step: Step): number {
    const busy = (step.inside * (this.#baselineMs ?? step.latencyMs)) / step.latencyMs;
    const share = headroom + headroomByError * this.#error;
    return Math.min(step.size, Math.max(share * busy, busy + 0.5));
  }

  #grow(now: Step, at: number): void {
    const baselineMs = this.#baselineMs ?? now.latencyMs;
    this.#state = { name: 'steady' };
    // Calls that all take one and the same time, and far longer than they can, ran into a time-out.
    if (now.isFlat && baselineMs >= 2 * this.#baselineMsLowest) return;
    const size = this.#size;
    const ratio = now.latencyMs / baselineMs;
    const end = growthEnd + growthEndByError * this.#error;
    const room = Math.min(1, Math.max(0, (2 * (end - ratio)) / (end - 1)));
    const step = Math.max(1, size / 5) * room;
    // Never far above what is used, so there is no growth while idle.
    const used = Math.ceil((1.5 * now.inside) / Math.max(1, ratio));
    if (used > size) this.#resize(Math.min(size + step, used), at);
  }

  #shrink(first: Step, last: Step, at: number): void {
    const size = Math.max(this.#sizeMin, Math.floor(last.size * probeShare));
    // Where the limit does not bind, or cannot shrink, there is nothing to find out by shrinking.
    if (last.inside <= size || size >= this.size) {
      this.#finish(first, last, at);
      return;
    }
    this.#state = { name: 'probing', first, last };
    this.#resize(size, at);
  }

  #follow(first: Step, last: Step, now: Step, at: number): void {
    const insideShare = Math.min(1, now.inside / last.inside);
    const latencyShare = now.latencyMs / last.latencyMs;
    // A standing queue makes latency fall as much as the number inside; two thirds of that will do.
    const hasFallen = latencyShare < (1 + 2 * insideShare) / 3 - now.error / 2;
    // Shrinking makes nothing slower: the downstream changed meanwhile, and nothing is known yet.
    const hasRisen = latencyShare > this.#tolerance;
    const isDeep = now.size <= first.size / 2;
    if ((hasFallen || hasRisen) && !isDeep) this.#shrink(first, now, at);
    else this.#finish(first, now, at, hasFallen);
  }

  #finish(first: Step, now: Step, at: number, hasFallen = false): void {
    this.#state = { name: 'steady' };
    this.#untilProbe = hasFallen ? probeAfter : probeEvery;
    this.#lateShareLeast = this.#lateShare;
    const baselineMs = this.#measured(now);
    // Where much work is cut, its times say how long callers wait, not how long the work takes.
    const isCut = this.#wasted >= wasteByChance && baselineMs > (this.#baselineMs ?? Infinity);
    if (!isCut) this.#setBaseline(baselineMs);
    const isFine = first.latencyMs <= this.#allowedMs();
    this.#resize(isFine ? first.size : this.#fit(first), at);
  }

  /** A baseline that is right again, since a smaller size did not make the work faster. */
  #measured({ latencyMs }: Step): number {
    const before = this.#baselineMs;
    return before === undefined || latencyMs > 2 * before ? latencyMs : (before + latencyMs) / 2;
  }

  /** Lowers the baseline; where the limit does not bind, nothing waits, so it follows. */
  #learn({ latencyMs, error }: Step, isUsed: boolean): void {
    const before = this.#baselineMs;
    if (before === undefined || (latencyMs < before && (this.#similar >= 3 || error < errorMin))) {
      this.#setBaseline(latencyMs);
    } else if (!isUsed) {
      this.#setBaseline(before + (latencyMs - before) * readingWeight);
    }
  }

  #setBaseline(baselineMs: number): void {
    this.#baselineMs = baselineMs;
    this.#baselineMsLowest = Math.min(this.#baselineMsLowest, baselineMs);
  }

  #cut(at: number): void {
    const state = this.#state;
    // A probe that is cut short gives back what it took for measuring.
    const size = state.name === 'probing' ? state.last.size : this.#size;
    this.#cutAt = at;
    if (state.name === 'probing') {
      this.#epochAt = at;
      this.#window.open();
    }
    this.#state = { name: 'steady' };
    this.#size = Math.max(this.#sizeMin, size * dropShare);
  }

  #resize(size: number, at: number): void {
    const before = this.size;
    this.#size = Math.min(this.#sizeMax, Math.max(this.#sizeMin, size));
    if (this.size === before) return;
    const change = this.size / before;
    if (change > 1.25 || change < 0.75) this.#similar = 0;
    this.#epochAt = at;
    this.#window.open();
  }
}
