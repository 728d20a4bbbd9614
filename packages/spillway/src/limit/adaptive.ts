import { Drops } from './drops.ts';
import type { Limit, Sample } from './limit.ts';
import {
  errorsByChance,
  isBound,
  isUsed,
  ReadingWindow,
  riseMs,
  type Step,
  waitMs,
} from './reading.ts';
import { Recovery } from './recovery.ts';
import { Waste } from './waste.ts';

/** Time in a queue downstream that is aimed at, in service times: some, so that no place idles. */
const queueShare = 0.25;
const queueShareLeast = 0.05;
/** Time in a queue downstream, in service times, at which doubling ends. */
const queueShareAtStart = 0.5;
/** Share of the spread by which the quickest of the first readings differ by chance. */
const chanceShare = 0.5;
/** Readings in a row, at most, that leave open whether doubling has made a queue. */
const doubtsMax = 2;
/** Share of a deadline that the work itself may take, where a smaller size makes it faster. */
const deadlineShare = 0.6;
/** Share of the way to the right size that one reading goes, where readings differ by chance. */
const gain = 0.5;
/** Largest changes by one reading, and the step of a probe. */
const growthMost = 1.2;
const shrinkMost = 0.5;
const probeStep = 0.8;
/** Share of those inside before, at most, at which the latencies are comparable. */
const comparedShare = 0.85;
/** The same where the latency asks for a far smaller size: it takes more to prove it wrong. */
const provedShare = 0.55;
/** Readings until a probe, and until the next one where there was a queue. */
const probeEvery = 64;
const probeAgain = 16;
/** Error of readings below which they do not differ by chance. */
const errorMin = 0.05;
const workWeight = 0.25;
/** Comparisons in a row by which even times are known to have become longer. */
const sameMin = 2;
const floorWeight = 0.25;
const spreadWeight = 1 / 8;
/** Spread over the floor from which on times are uneven. */
const unevenShare = 0.5;
/** Share of a size that was right with which a downstream is tried that failed. */
const restartShare = 0.4;
/** Share of work that is late from which on the size shrinks. */
const lateMost = 0.5;
/** Share of late work, at least, and rise of the quickest, at most, where some calls hang. */
const splitShare = 0.2;
const quickMost = 1.5;
/**
 * Finds how much work at once a downstream bears within a deadline.
 *
 * Time in a queue downstream is added to each call, also to the quickest. So the latency of the
 * quickest eighth tells of a queue long before the mean does, whose differences are mostly those of
 * the service times: with exponential times and 24 samples the mean has an error of 0.2 service
 * times, and the quickest eighth one of 0.08. Its rise over the `floor`, its value without a queue,
 * is the time in the queue, and Little's law gives the size at which a quarter of a service time
 * would be left of it.
 *
 * The first calls of all meet nobody else, so they give the floor. It falls by itself. It rises
 * when the size became smaller, because of a rise or for a probe, and the latency did not fall with
 * it: then there was no queue.
 *
 * While half of the work or more ends too late the size shrinks, whatever the latency says. Work
 * that was cut short gives a lower bound: it counts with the time it took if that is more than
 * usual, and says nothing otherwise, so that nobody can shrink the limit by cancelling calls. When
 * hardly any work ends in time the limit is stuck: its lane then only lets a few callers try.
 */
export class AdaptiveLimit implements Limit {
  #sizeMax: number;
  /** Milliseconds within which work is of use: its deadline, or less if callers leave before. */
  deadlineMs: number;
  readonly #window = new ReadingWindow();
  #size: number;
  /** True while the size doubles. */
  #isStarting = true;
  /** Work begun before was sent at another size, and is not read. */
  #epochAt = -Infinity;
  /** Latency of the quickest without a queue downstream, and of all. */
  #floorMs: number | undefined;
  #workMs: number | undefined;
  /** Standard error of the latter over it. */
  #workError = 0;
  /** Latency by the last reading: work that was cut sooner says nothing. */
  #latencyMs = Infinity;
  /** Last comparisons in which even times were longer than usual, and a smaller size no help. */
  #same = 0;
  /** Difference between the slower and the quicker calls, without a queue. */
  #spreadMs = 0;
  /** Last readings that left open whether doubling has made a queue. */
  #doubts = 0;
  /** Last doublings that have not made work slower. */
  #doublings = 0;
  /** The step before the size was doubled. */
  #smaller: Step | undefined;
  /** The step before the size began to shrink. */
  #larger: Step | undefined;
  /** True while the size shrinks for a probe, as long as that makes work faster. */
  #isProbing = false;
  #untilProbe = probeEvery;
  readonly #drops = new Drops();
  readonly #waste = new Waste();
  readonly #recovery = new Recovery();
  /** Size at which nothing ended in time. */
  #sizeStuck = Infinity;

  /** Sizes are integers from 1, the first at most `sizeMax`. */
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

  /** Changes the largest size, and sets the size, as far as that allows, to look on from there. */
  resize(sizeMax: number, size: number, now: number): void {
    this.#sizeMax = sizeMax;
    this.#forgetLarger();
    this.#resize(size, now);
    this.#recovery.resize(this.#size, this.#sizeMax);
  }

  observe(sample: Sample): void {
    const { outcome, isWhole, startedAt, endedAt } = sample;
    if (outcome === 'failed') return;
    this.#count(sample);
    if (outcome === 'overloaded') return;
    if (this.#isWaste(outcome === 'ok', endedAt) || startedAt < this.#epochAt) return;
    if (this.#drops.isTrying) return;
    if (this.#recovery.goal > 0 && this.#goesBack(sample)) return;
    // A lower bound below what is usual says nothing of latency, unless there was no more time.
    const isShort = !isWhole && endedAt - startedAt <= this.#latencyMs;
    if (isShort && outcome !== 'late') return;
    const reading = this.#window.add(sample);
    if (reading !== undefined) this.#decide({ ...reading, size: this.#size }, endedAt);
  }

  /** True while nothing ends in time: then only a few should try. */
  get isStuck(): boolean {
    return this.#waste.isStuck;
  }

  /** Doubles the size that late work has cut, once enough ended in time; true if it did. */
  #goesBack({ outcome, startedAt, endedAt: at }: Sample): boolean {
    const tookMs = outcome === 'ok' ? at - startedAt : undefined;
    const byDeadline = (deadlineShare * this.deadlineMs) / 2;
    const most = Math.max((1 + queueShareAtStart) * (this.#workMs ?? 0), byDeadline);
    const size = this.#recovery.count(tookMs, this.#size, most);
    if (size === undefined) return false;
    this.#untilProbe = Math.max(this.#untilProbe, probeAgain);
    this.#forgetLarger();
    this.#resize(size, at);
    return true;
  }

  /** Counts waste; true if nothing ended in time before, or does not from now on. */
  #isWaste(isGood: boolean, at: number): boolean {
    const wasStuck = this.isStuck;
    if (!this.#waste.count(isGood)) return wasStuck;
    this.#recovery.fail();
    this.#forgetLarger();
    const { goal } = this.#recovery;
    // A downstream that failed at a size that was right will do again, step by step.
    this.#isStarting = this.#size > goal;
    if (this.#isStarting) this.#sizeStuck = this.#size;
    this.#resize(this.#isStarting ? this.#size / 2 : goal * restartShare, at);
    return true;
  }

  #decide(now: Step, at: number): void {
    this.#latencyMs = now.latencyMs;
    this.#untilProbe -= 1;
    const larger = this.#larger;
    const fit = this.#fit(now);
    const share = fit < probeStep * this.#size ? provedShare : comparedShare;
    const isLate = now.lateShare >= lateMost && !this.#isSplit(now);
    if (isLate && this.#size > 1) this.#retreat(now, at);
    else if (this.#floorMs === undefined) {
      this.#floorMs = now.floorMs;
      this.#spreadMs = now.spreadMs;
    } else if (larger !== undefined && now.inside <= share * larger.inside) {
      this.#compare(larger, now, this.#floorMs, at);
    } else if (this.size === 1 && fit < this.#size) {
      this.#learnAlone(now, this.#floorMs);
    } else this.#adjust(now, this.#floorMs, at);
  }

  /** Learns at the smallest size, where there is nobody to wait for: the service is slower. */
  #learnAlone(now: Step, before: number): void {
    this.#isStarting = true;
    this.#smaller = undefined;
    this.#doubts = 0;
    this.#forgetLarger();
    const { floorMs, latencyMs, spreadMs, error } = now;
    this.#spreadMs = (this.#spreadMs + spreadMs) / 2;
    this.#floorMs = error < errorMin ? floorMs : (before + floorMs) / 2;
    this.#workMs = error < errorMin ? latencyMs : ((this.#workMs ?? latencyMs) + latencyMs) / 2;
  }

  /** Shrinks because too much work is late: latency does not show it without a floor. */
  #retreat(now: Step, at: number): void {
    this.#isStarting = false;
    this.#recovery.fail();
    this.#forgetLarger();
    this.#resize(Math.min(this.#size, now.inside) * probeStep, at);
  }

  /** Goes towards the size that fits. */
  #adjust(now: Step, before: number, at: number): void {
    const isExact = now.error < errorMin;
    const queueMs = this.#queueMs(now);
    const workMs = Math.max(now.latencyMs - queueMs, now.latencyMs / 8);
    if (now.floorMs < before) {
      this.#floorMs = isExact ? now.floorMs : before + (now.floorMs - before) * floorWeight;
    }
    if (queueMs <= queueShare * workMs) {
      this.#spreadMs += (now.spreadMs - this.#spreadMs) * spreadWeight;
      this.#recovery.prove(this.#size, now.inside);
    }
    const freeMs = this.#freeMs(now, queueMs, workMs);
    if (this.#isStarting && this.#starts(now, freeMs, before, at)) return;
    this.#learn(workMs, now);
    const size = this.#size;
    const fit = this.#fit(now);
    const wanted = isExact || fit > size ? fit : size + (fit - size) * gain;
    if (fit < size) {
      this.#isStarting = false;
      if (!isBound(now) && queueMs < workMs) return;
      this.#larger ??= now;
      this.#recovery.shrink();
      this.#resize(Math.max(wanted, size * shrinkMost), at);
      return;
    }
    this.#forgetLarger();
    if (isUsed(now) && this.#untilProbe <= 0) {
      this.#untilProbe = probeEvery;
      this.#isProbing = true;
      this.#shrink(now, at);
    } else {
      const most = Math.max(size + 1, growthMost * size);
      this.#resize(Math.min(wanted, most), at);
    }
  }

  /** Doubles the size, or reads once more if a queue may be chance; false if there is a queue. */
  #starts(now: Step, freeMs: number, before: number, at: number): boolean {
    const byChanceMs = chanceShare * Math.max(now.spreadMs, this.#spreadMs);
    const isFree = freeMs > 0;
    if (!isFree && (this.#doubts >= doubtsMax || freeMs <= -byChanceMs)) return false;
    this.#doubts = isFree ? 0 : this.#doubts + 1;
    if (!isFree && this.#smaller !== undefined) return true;
    // Quick calls come back first, and make the floor of the first readings too low.
    this.#floorMs = (before + now.floorMs) / 2;
    this.#spreadMs = (this.#spreadMs + now.spreadMs) / 2;
    this.#learn(now.latencyMs - Math.max(0, now.floorMs - before), now);
    if (isFree && isUsed(now)) this.#double(now, at);
    return true;
  }

  /** Time in a queue that doubling may still make; 0 or less if there is a queue already. */
  #freeMs(now: Step, queueMs: number, workMs: number): number {
    const smaller = this.#smaller;
    if (smaller === undefined || now.inside < smaller.inside / comparedShare) {
      return queueShareAtStart * workMs - queueMs;
    }
    return waitMs(smaller, now) / 2 - riseMs(smaller, now);
  }

  #learn(workMs: number, { error }: Step): void {
    const before = this.#workMs;
    const weight = before === undefined ? 1 : workWeight;
    this.#workMs = (1 - weight) * (before ?? 0) + weight * workMs;
    this.#workError = Math.hypot((1 - weight) * this.#workError, weight * error);
  }

  #double(now: Step, at: number): void {
    // Where bursts were not slower for being larger, the next step may be larger as well.
    const isFree = now.isBurst && this.#queueMs(now) < queueShareLeast * now.latencyMs;
    this.#doublings = isFree ? this.#doublings + 1 : 1;
    // The latency is to stay within what is allowed, even if all that is added waits.
    const growth = Math.max(1, (deadlineShare * this.deadlineMs) / now.latencyMs);
    const size = this.#size * Math.min(2, growth ** this.#doublings);
    if (size > 0.7 * this.#sizeStuck || this.#size >= this.#sizeMax) this.#isStarting = false;
    else {
      this.#smaller = now;
      this.#resize(size, at);
    }
  }

  /** Finds out whether there was a queue at a larger size: then the latency fell with the size. */
  #compare(larger: Step, now: Step, before: number, at: number): void {
    const hasFallen = riseMs(now, larger) > waitMs(now, larger) / 2;
    const workMs = this.#workMs ?? 0;
    const isFree = this.#queueMs(now) <= queueShare * workMs;
    if (hasFallen && isFree) this.#recovery.prove(this.#size, now.inside);
    const slower = this.#slowerMost(now, before);
    const floorMs = (before + Math.min(now.floorMs, before * slower)) / 2;
    this.#floorMs = hasFallen ? Math.min(before, floorMs) : floorMs;
    // Even times would never be learnt otherwise: all beyond what was usual is put down to a queue.
    const isEven = Math.max(larger.error, now.error) < errorMin;
    const isSame = isEven && !hasFallen && now.latencyMs > workMs;
    this.#same = isSame ? this.#same + 1 : 0;
    const isSlower = this.#same >= sameMin;
    if (!hasFallen) {
      this.#spreadMs = (this.#spreadMs + now.spreadMs) / 2;
      const workMsMax = slower === Infinity ? workMs : workMs * slower;
      this.#workMs = Math.max(workMs, (workMs + Math.min(now.latencyMs, workMsMax)) / 2);
    }
    if (isSlower) this.#floorMs = Math.max(floorMs, now.floorMs);
    if (isSlower || now.floorMs > before + workMs) this.#workMs = now.latencyMs;
    this.#untilProbe = hasFallen ? probeAgain : probeEvery;
    if (hasFallen && this.#isProbing) {
      this.#shrink(now, at);
      return;
    }
    this.#forgetLarger();
    const fit = Math.max(this.#fit(larger), this.#fit(now));
    this.#resize(Math.max(fit, now.size * probeStep), at);
  }

  /**
   * Factor, at most, by which uneven times became longer, by their spread: a queue adds the same to
   * all, and in a service that became slower the slow calls differ more from the quick ones.
   */
  #slowerMost({ spreadMs }: Step, before: number): number {
    const isUneven = Math.min(spreadMs, this.#spreadMs) > unevenShare * before;
    return isUneven ? spreadMs / this.#spreadMs : Infinity;
  }

  #shrink(now: Step, at: number): void {
    this.#larger = now;
    this.#resize(now.size * probeStep, at);
  }

  #forgetLarger(): void {
    this.#larger = undefined;
    this.#isProbing = false;
  }

  /**
   * True if some calls are late while the others are as quick as without a queue: those hang by
   * themselves, and a smaller size would only refuse more of the others.
   */
  #isSplit({ lateShare, floorMs }: Step): boolean {
    return lateShare >= splitShare && floorMs <= quickMost * (this.#floorMs ?? 0);
  }

  /** Time in a queue: the rise of the quickest, or of all beyond what chance explains. */
  #queueMs(step: Step): number {
    const { floorMs, latencyMs, error } = step;
    if (this.#isSplit(step)) return Math.max(0, floorMs - (this.#floorMs ?? floorMs));
    const byChance = errorsByChance * Math.hypot(error, this.#workError);
    const usualMs = (this.#workMs ?? latencyMs) * (1 + byChance);
    return Math.max(0, floorMs - (this.#floorMs ?? floorMs), latencyMs - usualMs);
  }

  /** The size that Little's law asks for, with a short queue, by a step. */
  #fit(step: Step): number {
    const workMs = this.#workMs ?? step.latencyMs;
    const queueMs = this.#queueMs(step);
    const used = isBound(step) ? step.size : step.inside;
    const room = (deadlineShare * this.deadlineMs) / workMs - 1;
    const aim = Math.max(queueShareLeast, Math.min(queueShare, room));
    return (used * (1 + aim)) / (1 + queueMs / workMs);
  }

  /** Counts a refusal of the other side, or an end without one, and takes the size it asks for. */
  #count(sample: Sample): void {
    const size = this.#drops.count(sample, this.#size, this.#workMs ?? 0);
    if (size === undefined) return;
    this.#isStarting = false;
    this.#forgetLarger();
    this.#resize(size, sample.endedAt);
  }

  #resize(size: number, at: number): void {
    const before = this.size;
    this.#size = Math.min(this.#sizeMax, Math.max(1, size));
    if (this.size === before) return;
    this.#epochAt = at;
    this.#window.open(this.size > before);
  }
}
