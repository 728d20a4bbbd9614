import { Drops } from './drops.ts';
import type { Limit, Sample } from './limit.ts';
import {
  errorsByChance,
  isBound,
  isUsed,
  queuedRiseMs,
  riseMs,
  SampleWindow,
  type SizedReading,
} from './reading.ts';
import { Recovery } from './recovery.ts';
import { Waste } from './waste.ts';

/** Queueing delay that the limit aims at, in service times, so that no place downstream idles. */
const delayAim = 0.25;
/** The same where the deadline leaves hardly any time to wait, and the one that ends slow start. */
const delayAimMin = 0.05;
const delayMaxAtStart = 0.5;
/** Share of the spread by which the quick calls of the first readings differ by chance. */
const chanceShare = 0.5;
/** Readings in a row, at most, that leave open whether doubling has made a queue. */
const unclearMax = 2;
/** Share of the deadline that latency may take. */
const deadlineShare = 0.6;
/** Part of the way to the fitting size that one reading goes if readings differ by chance. */
const gain = 0.5;
/** Factors: largest growth and largest cut by one reading, and the cut of a probe. */
const growthMax = 1.2;
const cutMax = 0.5;
const probeCut = 0.8;
/** Two readings are compared if the later one has at most this share of the earlier in flight; */
const comparedShare = 0.85;
/** or this one if the latency asks for a far smaller size: it takes more to prove that wrong. */
const farComparedShare = 0.55;
/** Readings from one probe to the next, without and with a queue at the last one. */
const probeEvery = 64;
const probeEveryQueued = 16;
/** Relative standard error below which service times count as even. */
const evenError = 0.05;
/** Weights of one reading in the service time, the baseline and the spread. */
const serviceWeight = 0.25;
const baselineWeight = 0.25;
const spreadWeight = 1 / 8;
/** Comparisons in a row that prove even service times to have become longer. */
const longerMin = 2;
/** Spread over baseline above which service times count as uneven. */
const unevenShare = 0.5;
/** Part of the goal at which a recovery from being stuck begins. */
const restartShare = 0.4;
/** Share of late work from which on the size is cut. */
const lateMax = 0.5;
/** Some calls hang by themselves if this share is late, and the quick ones rose no more than so. */
const hangingShare = 0.2;
const quickRiseMax = 1.5;

/**
 * Finds how much work a downstream bears in flight at once within a deadline.
 *
 * A queue downstream delays every call alike, the quickest, too. So the latency of the quick calls
 * (an eighth is quicker) shows a queueing delay long before the mean does, which differs by chance:
 * with exponential service times and 24 samples the standard error of the mean is 0.2 service
 * times, that of the quick calls 0.08. Their rise over the baseline, which is their latency without
 * a queue, is the queueing delay. Little's law then gives the fitting size: the one at which a
 * quarter of a service time is left of that delay.
 *
 * The states:
 *
 * - Slow start (`#isSlowStart`): the first calls meet no others, so the first reading gives the
 *   baseline. Then the size doubles with each reading until a queueing delay shows.
 * - Steady: each reading moves the size towards the fitting one. The baseline falls by itself, but
 *   a service that became slower looks like a queue. So now and then a probe cuts the size.
 * - Comparing (`#beforeCut`): after a cut, the next reading with clearly fewer in flight is
 *   compared with the one before. Latency that fell with the size was a queueing delay; latency
 *   that did not is the service's own, and the baseline rises.
 * - Backing off: a reading with half of the work late cuts the size, whatever the latency is.
 * - Recovering (`Recovery`): once work ends in time again, the size doubles back to the goal.
 * - Holding (`Drops`): the size waits until shares of refusals by the downstream are compared.
 * - Stuck (`Waste`): hardly any work ends in time. The lane lets only single callers try.
 *
 * Work that was cut short gives a lower bound of its latency: it counts if that is more than usual,
 * and says nothing otherwise, so that nobody can shrink the limit by cancelling calls.
 */
export class AdaptiveLimit implements Limit {
  #sizeMax: number;
  /** Milliseconds within which work is of use: its deadline, or less if callers leave sooner. */
  deadlineMs: number;
  readonly #window = new SampleWindow();
  #size: number;
  /** Moment of the last change of size: work begun before it is not sampled. */
  #sizeSetAt = -Infinity;
  #isSlowStart = true;
  /** Latency of the quick calls without a queue downstream. */
  #baselineMs: number | undefined;
  /** Mean latency without a queue, which is the service time, and its relative standard error. */
  #serviceMs: number | undefined;
  #serviceError = 0;
  /** Difference of the slow calls to the quick ones, without a queue. */
  #spreadMs = 0;
  /** Mean latency of the last reading: work that was cut sooner says nothing. */
  #latencyMs = Infinity;
  /** Last comparisons, in a row, in which even service times were longer without a queue. */
  #longer = 0;
  /** Last readings, in a row, that left open whether doubling has made a queue. */
  #unclear = 0;
  /** Last doublings, in a row, that made no queue. */
  #doublings = 0;
  /** The last reading before the size was doubled. */
  #beforeDoubling: SizedReading | undefined;
  /** The last reading before the size was cut, until it has been compared. */
  #beforeCut: SizedReading | undefined;
  /** True while a probe cuts the size, again and again for as long as latency falls with it. */
  #isProbing = false;
  #untilProbe = probeEvery;
  readonly #drops = new Drops();
  readonly #waste = new Waste();
  readonly #recovery = new Recovery();
  /** Size of slow start at which the downstream became stuck. */
  #stuckSize = Infinity;

  constructor(size: number, sizeMax: number, deadlineMs: number) {
    this.#sizeMax = sizeMax;
    this.deadlineMs = deadlineMs;
    this.#size = size;
  }

  get sizeMax(): number {
    return this.#sizeMax;
  }

  get size(): number {
    return Math.floor(this.#size);
  }

  /** Changes the largest size, and sets the size to go on from, as far as that allows. */
  resize(sizeMax: number, size: number, now: number): void {
    this.#sizeMax = sizeMax;
    this.#endComparing();
    this.#resize(size, now);
    this.#recovery.resize(this.#size, this.#sizeMax);
  }

  observe(sample: Sample): void {
    const { outcome, isWhole, startedAt, endedAt } = sample;
    if (outcome === 'failed') return;
    this.#countDrop(sample);
    if (outcome === 'overloaded') return;
    if (this.#countWaste(outcome === 'ok', endedAt) || startedAt < this.#sizeSetAt) return;
    if (this.#drops.isComparing) return;
    if (this.#recovery.goal > 0 && this.#recover(sample)) return;
    // A lower bound below the usual latency says nothing, unless there was no more time.
    const isShort = !isWhole && endedAt - startedAt <= this.#latencyMs;
    if (isShort && outcome !== 'late') return;
    const reading = this.#window.add(sample);
    if (reading !== undefined) this.#decide({ ...reading, size: this.#size }, endedAt);
  }

  /** True while hardly any work ends in time: then only single callers should try. */
  get isStuck(): boolean {
    return this.#waste.isStuck;
  }

  /** Doubles the size on the way back once enough work ended in time; true if it did. */
  #recover({ outcome, startedAt, endedAt }: Sample): boolean {
    const latencyMs = outcome === 'ok' ? endedAt - startedAt : undefined;
    const byDeadlineMs = (deadlineShare * this.deadlineMs) / 2;
    const mostMs = Math.max((1 + delayMaxAtStart) * (this.#serviceMs ?? 0), byDeadlineMs);
    const size = this.#recovery.count(latencyMs, this.#size, mostMs);
    if (size === undefined) return false;
    this.#untilProbe = Math.max(this.#untilProbe, probeEveryQueued);
    this.#endComparing();
    this.#resize(size, endedAt);
    return true;
  }

  /** Counts whether work was wasted; true while the downstream is stuck, and for one end more. */
  #countWaste(isGood: boolean, at: number): boolean {
    const wasStuck = this.isStuck;
    if (!this.#waste.count(isGood)) return wasStuck;
    this.#recovery.fail();
    this.#endComparing();
    const { goal } = this.#recovery;
    // Without a proven size that is larger, the size itself was wrong, and is searched anew.
    this.#isSlowStart = this.#size > goal;
    if (this.#isSlowStart) this.#stuckSize = this.#size;
    this.#resize(this.#isSlowStart ? this.#size / 2 : goal * restartShare, at);
    return true;
  }

  #decide(now: SizedReading, at: number): void {
    this.#latencyMs = now.meanMs;
    this.#untilProbe -= 1;
    const before = this.#beforeCut;
    const fit = this.#fittingSize(now);
    const share = fit < probeCut * this.#size ? farComparedShare : comparedShare;
    const isLate = now.lateShare >= lateMax && !this.#haveSomeHung(now);
    if (isLate && this.#size > 1) this.#backOff(now, at);
    else if (this.#baselineMs === undefined) {
      this.#baselineMs = now.quickMs;
      this.#spreadMs = now.spreadMs;
    } else if (before !== undefined && now.inside <= share * before.inside) {
      this.#compare(before, now, this.#baselineMs, at);
    } else if (this.size === 1 && fit < this.#size) {
      this.#learnAlone(now, this.#baselineMs);
    } else this.#adjust(now, this.#baselineMs, at);
  }

  /** Learns at size 1, where no call waits for another: the service has become slower. */
  #learnAlone(now: SizedReading, baselineMs: number): void {
    this.#isSlowStart = true;
    this.#beforeDoubling = undefined;
    this.#unclear = 0;
    this.#endComparing();
    const { quickMs, meanMs } = now;
    const isEven = now.error < evenError;
    this.#spreadMs = (this.#spreadMs + now.spreadMs) / 2;
    this.#baselineMs = isEven ? quickMs : (baselineMs + quickMs) / 2;
    this.#serviceMs = isEven ? meanMs : ((this.#serviceMs ?? meanMs) + meanMs) / 2;
  }

  /** Cuts the size since too much work is late: latency does not show that without a baseline. */
  #backOff(now: SizedReading, at: number): void {
    this.#isSlowStart = false;
    this.#recovery.fail();
    this.#endComparing();
    this.#resize(Math.min(this.#size, now.inside) * probeCut, at);
  }

  /** Moves the size towards the fitting one, or begins a probe. */
  #adjust(now: SizedReading, baselineMs: number, at: number): void {
    const isEven = now.error < evenError;
    const delayMs = this.#delayMs(now);
    const serviceMs = Math.max(now.meanMs - delayMs, now.meanMs / 8);
    if (now.quickMs < baselineMs) {
      const stepMs = (now.quickMs - baselineMs) * baselineWeight;
      this.#baselineMs = isEven ? now.quickMs : baselineMs + stepMs;
    }
    if (delayMs <= delayAim * serviceMs) {
      this.#spreadMs += (now.spreadMs - this.#spreadMs) * spreadWeight;
      this.#recovery.prove(this.#size, now.inside);
    }
    const spareMs = this.#spareDelayMs(now, delayMs, serviceMs);
    if (this.#isSlowStart && this.#slowStart(now, spareMs, baselineMs, at)) return;
    this.#learnService(serviceMs, now);
    const size = this.#size;
    const fit = this.#fittingSize(now);
    const wanted = isEven || fit > size ? fit : size + (fit - size) * gain;
    if (fit < size) {
      this.#isSlowStart = false;
      if (!isBound(now) && delayMs < serviceMs) return;
      this.#beforeCut ??= now;
      this.#recovery.shrink();
      this.#resize(Math.max(wanted, size * cutMax), at);
      return;
    }
    this.#endComparing();
    if (isUsed(now) && this.#untilProbe <= 0) {
      this.#untilProbe = probeEvery;
      this.#isProbing = true;
      this.#beforeCut = now;
      this.#resize(size * probeCut, at);
    } else {
      this.#resize(Math.min(wanted, Math.max(size + 1, growthMax * size)), at);
    }
  }

  /** Doubles the size, or reads once more if a delay may be chance; false if there is a queue. */
  #slowStart(now: SizedReading, spareMs: number, baselineMs: number, at: number): boolean {
    const chanceMs = chanceShare * Math.max(now.spreadMs, this.#spreadMs);
    const isFree = spareMs > 0;
    if (!isFree && (this.#unclear >= unclearMax || spareMs <= -chanceMs)) return false;
    this.#unclear = isFree ? 0 : this.#unclear + 1;
    if (!isFree && this.#beforeDoubling !== undefined) return true;
    // Quick calls come back first, so the first readings make the baseline too low.
    this.#baselineMs = (baselineMs + now.quickMs) / 2;
    this.#spreadMs = (this.#spreadMs + now.spreadMs) / 2;
    this.#learnService(now.meanMs - Math.max(0, now.quickMs - baselineMs), now);
    if (isFree && isUsed(now)) this.#double(now, at);
    return true;
  }

  /** Queueing delay that slow start may still add; 0 or less if there is too much already. */
  #spareDelayMs(now: SizedReading, delayMs: number, serviceMs: number): number {
    const before = this.#beforeDoubling;
    if (before === undefined || now.inside < before.inside / comparedShare) {
      return delayMaxAtStart * serviceMs - delayMs;
    }
    return queuedRiseMs(before, now) / 2 - riseMs(before, now);
  }

  #learnService(serviceMs: number, { error }: SizedReading): void {
    const weight = this.#serviceMs === undefined ? 1 : serviceWeight;
    this.#serviceMs = (1 - weight) * (this.#serviceMs ?? 0) + weight * serviceMs;
    this.#serviceError = Math.hypot((1 - weight) * this.#serviceError, weight * error);
  }

  #double(now: SizedReading, at: number): void {
    // Where larger bursts were not slower, the next step may be larger as well.
    const isFree = now.isBurst && this.#delayMs(now) < delayAimMin * now.meanMs;
    this.#doublings = isFree ? this.#doublings + 1 : 1;
    // Latency has to stay below its share of the deadline even if all that is added waits.
    const growth = Math.max(1, (deadlineShare * this.deadlineMs) / now.meanMs);
    const size = this.#size * Math.min(2, growth ** this.#doublings);
    this.#isSlowStart = size <= 0.7 * this.#stuckSize && this.#size < this.#sizeMax;
    if (!this.#isSlowStart) return;
    this.#beforeDoubling = now;
    this.#resize(size, at);
  }

  /** Finds out whether there was a queue before the cut: then the latency fell with the size. */
  #compare(before: SizedReading, now: SizedReading, baselineMs: number, at: number): void {
    const hasFallen = riseMs(now, before) > queuedRiseMs(now, before) / 2;
    const serviceMs = this.#serviceMs ?? 0;
    if (hasFallen && this.#delayMs(now) <= delayAim * serviceMs) {
      this.#recovery.prove(this.#size, now.inside);
    }
    const slowdown = this.#slowdownMax(now, baselineMs);
    const raisedMs = (baselineMs + Math.min(now.quickMs, baselineMs * slowdown)) / 2;
    this.#baselineMs = hasFallen ? Math.min(baselineMs, raisedMs) : raisedMs;
    // All that even times have more than usual is put down to a queue: only this corrects it.
    const areEven = Math.max(before.error, now.error) < evenError;
    const areLonger = areEven && !hasFallen && now.meanMs > serviceMs;
    this.#longer = areLonger ? this.#longer + 1 : 0;
    const isSlower = this.#longer >= longerMin;
    if (!hasFallen) {
      this.#spreadMs = (this.#spreadMs + now.spreadMs) / 2;
      const mostMs = slowdown === Infinity ? serviceMs : serviceMs * slowdown;
      this.#serviceMs = Math.max(serviceMs, (serviceMs + Math.min(now.meanMs, mostMs)) / 2);
    }
    if (isSlower) this.#baselineMs = Math.max(raisedMs, now.quickMs);
    if (isSlower || now.quickMs > baselineMs + serviceMs) this.#serviceMs = now.meanMs;
    this.#untilProbe = hasFallen ? probeEveryQueued : probeEvery;
    const cutSize = now.size * probeCut;
    if (hasFallen && this.#isProbing) {
      this.#beforeCut = now;
      this.#resize(cutSize, at);
      return;
    }
    this.#endComparing();
    const fit = Math.max(this.#fittingSize(before), this.#fittingSize(now));
    this.#resize(Math.max(fit, cutSize), at);
  }

  /**
   * Factor by which uneven service times became longer at most, by their spread: a queue delays all
   * calls alike, but in a slower service the slow calls differ more from the quick ones.
   */
  #slowdownMax({ spreadMs }: SizedReading, baselineMs: number): number {
    const areUneven = Math.min(spreadMs, this.#spreadMs) > unevenShare * baselineMs;
    return areUneven ? spreadMs / this.#spreadMs : Infinity;
  }

  #endComparing(): void {
    this.#beforeCut = undefined;
    this.#isProbing = false;
  }

  /**
   * True if some calls are late while the others are as quick as without a queue: those hang by
   * themselves, and a smaller size would only refuse more of the others.
   */
  #haveSomeHung({ lateShare, quickMs }: SizedReading): boolean {
    return lateShare >= hangingShare && quickMs <= quickRiseMax * (this.#baselineMs ?? 0);
  }

  /** The queueing delay: the rise of the quick calls, or of the mean beyond chance. */
  #delayMs(reading: SizedReading): number {
    const { quickMs, meanMs, error } = reading;
    const quickRiseMs = Math.max(0, quickMs - (this.#baselineMs ?? quickMs));
    if (this.#haveSomeHung(reading)) return quickRiseMs;
    const byChance = errorsByChance * Math.hypot(error, this.#serviceError);
    const usualMs = (this.#serviceMs ?? meanMs) * (1 + byChance);
    return Math.max(quickRiseMs, meanMs - usualMs);
  }

  /** The size that Little's law gives for the queueing delay that the limit aims at. */
  #fittingSize(reading: SizedReading): number {
    const serviceMs = this.#serviceMs ?? reading.meanMs;
    const used = isBound(reading) ? reading.size : reading.inside;
    const room = (deadlineShare * this.deadlineMs) / serviceMs - 1;
    const aim = Math.max(delayAimMin, Math.min(delayAim, room));
    return (used * (1 + aim)) / (1 + this.#delayMs(reading) / serviceMs);
  }

  #countDrop(sample: Sample): void {
    const size = this.#drops.count(sample, this.#size, this.#serviceMs ?? 0);
    if (size === undefined) return;
    this.#isSlowStart = false;
    this.#endComparing();
    this.#resize(size, sample.endedAt);
  }

  #resize(size: number, at: number): void {
    const before = this.size;
    this.#size = Math.min(this.#sizeMax, Math.max(1, size));
    if (this.size === before) return;
    this.#sizeSetAt = at;
    this.#window.open(this.size > before);
  }
}
