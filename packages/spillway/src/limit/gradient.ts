import { LatencyWindow, type Reading } from './latency-window.ts';
import { checkLimitOptions, type Limit, type LimitOptions, type Sample } from './limit.ts';

/** Latency over the baseline that is put down to chance; above it, work is waiting downstream. */
const tolerance = 1.25;
/** Latency over the baseline at which growth has faded to nothing. */
const growthEnd = 1.15;
/** The size after it was too large, as a multiple of what Little's law asks for. */
const headroom = 1.1;
/** The share a probe leaves. Times `tolerance` it must stay below 1: see the class comment. */
const probeShare = 0.7;
/** Readings between two probes. */
const probeEvery = 32;
const dropShare = 0.9;

/** A reading, and the size it was taken at. */
interface Step extends Reading {
  readonly size: number;
}

interface Probe {
  /** Before the probe began. */
  readonly first: Step;
  /** Before the last shrink. */
  readonly last: Step;
}

export interface GradientLimitStats {
  readonly size: number;
  readonly sizeMax: number;
  /** Milliseconds that work takes when none of it waits downstream; undefined until measured. */
  readonly baselineMs: number | undefined;
  /** Milliseconds, by the last reading. */
  readonly latencyMs: number | undefined;
  /** Baseline over latency: 1 when nothing waits, 0.5 when half of the time is waiting. */
  readonly gradient: number;
  readonly isProbing: boolean;
  /** The number of times it shrank to measure the baseline. */
  readonly probes: number;
  /** The number of times a drop made it smaller. */
  readonly cuts: number;
}

/**
 * Finds the size above which more work inside only means more waiting downstream: it compares the
 * latency of now with a baseline, grows by about a root of its size while they agree, and falls to
 * what Little's law asks for when they do not.
 *
 * The baseline is measured by a probe: shrink to 0.7, look only at work begun since, and if the
 * latency fell with the size there was a queue, so shrink again; if it did not, this is the time
 * the work itself takes. Overload cannot lift the baseline bit by bit, because a probe shrinks by
 * more than the tolerance lets the size overshoot (0.7 x 1.25 < 1); a downstream that really became
 * slower is learnt, because shrinking does not make it faster.
 */
export class GradientLimit implements Limit {
  readonly sizeMax: number;
  readonly #sizeMin: number;
  readonly #latencyMsMax: number;
  readonly #window = new LatencyWindow();
  #size: number;
  /** Work begun before was sent at another size, and is not read. */
  #epochAt = -Infinity;
  #cutAt = -Infinity;
  #baselineMs: number | undefined;
  #baselineMsLowest = Infinity;
  #latencyMs: number | undefined;
  /** Set by a slow reading, until one that is not. */
  #slow: Step | undefined;
  #readings = 0;
  #probe: Probe | undefined;
  #probes = 0;
  #cuts = 0;

  constructor(options: LimitOptions) {
    const { size, sizeMin, sizeMax, latencyMsMax } = checkLimitOptions(options);
    this.sizeMax = sizeMax;
    this.#sizeMin = sizeMin;
    this.#latencyMsMax = latencyMsMax;
    this.#size = size;
  }

  get size(): number {
    return Math.floor(this.#size);
  }

  get stats(): GradientLimitStats {
    const baselineMs = this.#baselineMs;
    const latencyMs = this.#latencyMs;
    return {
      size: this.size,
      sizeMax: this.sizeMax,
      baselineMs,
      latencyMs,
      gradient: baselineMs && latencyMs ? Math.min(1, baselineMs / latencyMs) : 1,
      isProbing: this.#probe !== undefined,
      probes: this.#probes,
      cuts: this.#cuts,
    };
  }

  observe(sample: Sample): void {
    const { outcome, isWhole, startedAt, endedAt } = sample;
    const isTooMuch = outcome === 'overloaded' || outcome === 'late';
    if (isTooMuch || endedAt - startedAt >= this.#latencyMsMax) {
      // Work begun before the last cut was sent at the old size: a burst of drops is one event.
      if (startedAt >= this.#cutAt) this.#cut(endedAt);
    } else if (isWhole && startedAt >= this.#epochAt) {
      const reading = this.#window.add(sample);
      if (reading !== undefined) this.#decide({ ...reading, size: this.#size }, endedAt);
    }
  }

  #decide(now: Step, at: number): void {
    this.#latencyMs = now.latencyMs;
    this.#readings += 1;
    const baselineMs = this.#baselineMs;
    if (this.#probe !== undefined) this.#follow(this.#probe, now, at);
    else if (baselineMs === undefined) this.#shrink(now, now, at);
    else if (now.latencyMs > baselineMs * tolerance) this.#yield(now, baselineMs, at);
    else if (this.#readings >= probeEvery) this.#shrink(now, now, at);
    else this.#grow(now, baselineMs, at);
  }

  #yield(now: Step, baselineMs: number, at: number): void {
    if (this.#slow === undefined) {
      this.#slow = now;
      this.#resize(Math.max(this.#size / 2, this.#fit(now, baselineMs)), at);
    } else {
      // Having fallen to what should fit did not help, so the baseline is in doubt.
      this.#shrink(now, now, at);
    }
  }

  /** The size that Little's law asks for: of those inside, as many as were not waiting. */
  #fit(step: Step, baselineMs: number): number {
    const busy = (step.inside * baselineMs) / step.latencyMs;
    return Math.min(step.size, headroom * busy);
  }

  #grow(now: Step, baselineMsBefore: number, at: number): void {
    this.#slow = undefined;
    const isClearlyFaster = now.latencyMs < 0.7 * baselineMsBefore;
    const baselineMs = isClearlyFaster ? now.latencyMs : baselineMsBefore;
    this.#learn(baselineMs);
    // Calls that all take one and the same time, and far longer than they can, ran into a time-out.
    if (now.isFlat && baselineMs >= 2 * this.#baselineMsLowest) return;
    const size = this.#size;
    const ratio = now.latencyMs / baselineMs;
    const room = Math.min(1, Math.max(0, (growthEnd - ratio) / (growthEnd - 1)));
    const step = Math.min(Math.sqrt(size), Math.max(1, size / 5)) * room;
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
    this.#probe = { first, last };
    this.#probes += 1;
    this.#resize(size, at);
  }

  #follow({ first, last }: Probe, now: Step, at: number): void {
    const insideShare = Math.min(1, now.inside / last.inside);
    const latencyShare = now.latencyMs / last.latencyMs;
    // A standing queue makes latency fall as much as the number inside; two thirds of that will do.
    const hasFallen = latencyShare < (1 + 2 * insideShare) / 3;
    // Shrinking makes nothing slower: the downstream changed meanwhile, and nothing is known yet.
    const hasRisen = latencyShare > tolerance;
    if (hasFallen || hasRisen) this.#shrink(first, now, at);
    else this.#finish(first, now, at);
  }

  #finish(first: Step, now: Step, at: number): void {
    this.#probe = undefined;
    this.#readings = 0;
    const baselineMs = this.#measured(first, now);
    this.#learn(baselineMs);
    const fine = [this.#slow ?? first, first].find((s) => s.latencyMs <= baselineMs * tolerance);
    this.#slow = undefined;
    this.#resize(fine?.size ?? this.#fit(first, baselineMs), at);
  }

  #measured(first: Step, { latencyMs }: Step): number {
    const before = this.#baselineMs;
    if (before === undefined || latencyMs > 2 * before) return latencyMs;
    if (latencyMs < before) return (before + latencyMs) / 2;
    // Some of a small rise may be the queue of others who share the downstream. If each took it for
    // the baseline and grew on top of it, together they would grow without end.
    const isSlow = first.latencyMs > before * tolerance;
    return isSlow ? Math.max(before, latencyMs / headroom) : before;
  }

  #learn(baselineMs: number): void {
    this.#baselineMs = baselineMs;
    this.#baselineMsLowest = Math.min(this.#baselineMsLowest, baselineMs);
  }

  #cut(at: number): void {
    // A probe that is cut short gives back what it took for measuring.
    const size = this.#probe?.last.size ?? this.#size;
    this.#cutAt = at;
    this.#cuts += 1;
    this.#slow = undefined;
    if (this.#probe !== undefined) {
      this.#probe = undefined;
      this.#epochAt = at;
      this.#window.open();
    }
    this.#size = Math.max(this.#sizeMin, size * dropShare);
  }

  #resize(size: number, at: number): void {
    const before = this.size;
    this.#size = Math.min(this.sizeMax, Math.max(this.#sizeMin, size));
    if (this.size === before) return;
    this.#epochAt = at;
    this.#window.open();
  }
}
