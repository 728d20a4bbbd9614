import type { Limit, Sample } from '../limit/limit.ts';

const sizeAtStart = 20;
const answersMin = 64;
/** The size counts as used up when the mean in flight is above this share of it. */
const usedShare = 2 / 3;
/** Share of the rate above which the bucket, and not the size, bounds the goodput. */
const rateShare = 0.9;
/** Answers after which the latency is known well enough to leap, and how far at most. */
const leapAnswers = 8;
const leapMax = 4;
/** Factor by which the first few answers may have been quicker by chance. */
const slack = 1.6;
/** Factor by which a trial changes the size while growing, and once trials have failed. */
const growth = 2;
const step = 1.5;
/** Trials that fail in a row before a smaller size is tried; one may fail by chance. */
const failedMin = 2;
/** Readings between two trials, at most. */
const restMax = 16;
/**
 * The gain of a trial is the growth of goodput over the growth of the size, both as logarithms: 1
 * if nothing queues on the other side, 0 if more in flight only wait there. A larger size is kept
 * if its gain is above the first, a smaller one if it is below the second.
 */
const gainOfLargerMin = 0.3;
const gainOfSmallerMax = 0.1;

/** Answers per second at one size. */
interface Reading {
  readonly size: number;
  readonly perSecond: number;
}

/**
 * Finds the number of fetches in flight: by Little's law, the rate times the latency. After the
 * first few answers it leaps to twice that, at most fourfold. From there the bucket sets the pace,
 * unless the size is used up and the rate is not. Then it tries other sizes, one at a time, and
 * keeps what the goodput proves: a larger one that brings more, or a smaller one that brings as
 * much. Latency proves nothing here: one that doubles by itself looks like a queue, and a limit
 * that shrinks in answer to it has less and less goodput.
 */
export class HarvestLimit implements Limit {
  readonly sizeMax: number;
  readonly #ratePerSecond: () => number;
  #size: number;
  /** True until a round trip has passed at this size: the first to come back are the quick ones. */
  #isSkipping = true;
  #skipped = 0;
  /** The begin of the reading, or of what is skipped before it. */
  #openedAt = -Infinity;
  #answers = 0;
  /** Answers and failures. */
  #ends = 0;
  #insideSum = 0;
  #insideAtBegin = 0;
  /** The reading before the size was changed for a trial; undefined if there is no trial. */
  #before: Reading | undefined;
  /** Trials in a row that were not kept. */
  #failed = 0;
  /** Readings left until the next trial. */
  #rest = 0;
  /** True as soon as the size has changed: then there is no leap any more. */
  #hasChanged = false;
  /** Time spent by all in flight since the last reading, and how many came back in it. */
  #spentMs = 0;
  #leapAnswers = 0;
  #last: Pick<Sample, 'endedAt' | 'inside'> | undefined;

  /** `ratePerSecond` gives the current rate, or 0 if it is not known: then there is no leap. */
  constructor(sizeMax: number, ratePerSecond: () => number) {
    this.sizeMax = sizeMax;
    this.#ratePerSecond = ratePerSecond;
    this.#size = Math.min(sizeAtStart, sizeMax);
  }

  get size(): number {
    return this.#size;
  }

  observe(sample: Sample): void {
    if (sample.outcome === 'aborted') return;
    if (!this.#hasChanged && sample.isWhole && this.#leaps(sample)) return;
    if (this.#before !== undefined && this.#isHopeless(this.#before, sample.endedAt)) {
      this.#fail(this.#before, sample.endedAt);
    } else if (this.#isSkipping) this.#skip(sample);
    else this.#read(sample);
  }

  /** Leaps if it is time to, once, before anything else has changed the size; true if it did. */
  #leaps({ startedAt, endedAt, inside }: Sample): boolean {
    const { endedAt: since, inside: before } = this.#last ?? { endedAt: startedAt, inside: 0 };
    this.#spentMs += ((before + inside) / 2) * (endedAt - since);
    this.#leapAnswers += 1;
    this.#last = { endedAt, inside };
    // Calls still in flight count too, since the first to come back are the quick ones.
    const latencyMs = this.#spentMs / this.#leapAnswers;
    const wanted = Math.ceil((2 * this.#ratePerSecond() * latencyMs) / 1000);
    if (this.#leapAnswers < leapAnswers || wanted <= this.#size) return false;
    this.#before = { size: this.#size, perSecond: (1000 * this.#size) / (slack * latencyMs) };
    this.#resize(Math.min(leapMax * this.#size, Math.max(2 * this.#size, wanted)), endedAt);
    return true;
  }

  #skip({ isWhole, startedAt, endedAt, inside }: Sample): void {
    if (isWhole && startedAt >= this.#openedAt) this.#skipped += 1;
    if (this.#skipped >= inside) this.#open(endedAt, inside, false);
  }

  #read({ isWhole, endedAt, inside }: Sample): void {
    this.#ends += 1;
    if (!isWhole) return;
    this.#answers += 1;
    this.#insideSum += inside;
    if (this.#answers < this.#answersMin) return;
    const seconds = (endedAt - this.#openedAt) / 1000;
    const now = { size: this.#size, perSecond: this.#answers / seconds };
    const isUsed = this.#insideSum / this.#answers > usedShare * this.#size;
    // Fetches that fail or hang need tokens, too.
    const paced = rateShare * this.#rate * seconds;
    // Nothing is known yet while the number in flight still grows as fast as the rate lets it.
    const isFilling = this.#ends + inside - this.#insideAtBegin >= paced;
    if (!isUsed || this.#ends >= paced) {
      this.#before = undefined;
      this.#failed = 0;
      this.#rest = 0;
    } else if (!isFilling) this.#decide(now, endedAt);
    if (!this.#isSkipping) this.#open(endedAt, inside, false);
  }

  /** Answers that one reading needs. */
  get #answersMin(): number {
    return Math.max(answersMin, this.#size);
  }

  /** The rate of the bucket per second; infinite if it is not known. */
  get #rate(): number {
    return this.#ratePerSecond() || Infinity;
  }

  /** True if a trial takes twice the time that its answers and the skipped ones should need. */
  #isHopeless(before: Reading, at: number): boolean {
    return (at - this.#openedAt) * before.perSecond > 4_000 * this.#answersMin;
  }

  /** Ends a trial, or begins one. */
  #decide(now: Reading, at: number): void {
    const before = this.#before;
    if (before !== undefined && !this.#keeps(before, now)) {
      this.#fail(before, at);
    } else if (this.#rest > 0) {
      this.#before = undefined;
      this.#rest -= 1;
    } else {
      this.#before = now;
      const isGrowing = this.#failed < failedMin;
      const isLarger = isGrowing || this.#failed % 2 === 1;
      const factor = isGrowing ? growth : step;
      this.#resize(isLarger ? this.#size * factor : this.#size / factor, at);
    }
  }

  /** Goes back to the size before the trial. */
  #fail(before: Reading, at: number): void {
    this.#before = undefined;
    this.#failed += 1;
    this.#rest = Math.min(restMax, 2 ** (this.#failed - 1)) - 1;
    this.#resize(before.size, at);
  }

  /** True if the goodput speaks for the size of this trial. */
  #keeps(before: Reading, now: Reading): boolean {
    const gain = Math.log(now.perSecond / before.perSecond) / Math.log(now.size / before.size);
    const isLarger = now.size > before.size;
    const isKept = isLarger ? gain > gainOfLargerMin : gain < gainOfSmallerMax;
    if (isKept) this.#failed = isLarger ? 0 : failedMin;
    return isKept;
  }

  #resize(size: number, at: number): void {
    this.#size = Math.min(this.sizeMax, Math.max(1, Math.round(size)));
    this.#hasChanged = true;
    this.#skipped = 0;
    this.#open(at, 0, true);
  }

  /** Begins the next reading, or what is skipped before it. */
  #open(at: number, inside: number, isSkipping: boolean): void {
    this.#openedAt = at;
    this.#isSkipping = isSkipping;
    this.#insideAtBegin = inside;
    this.#answers = 0;
    this.#ends = 0;
    this.#insideSum = 0;
    this.#spentMs = 0;
    this.#leapAnswers = 0;
  }
}
