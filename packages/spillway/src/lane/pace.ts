import { AdaptiveLimit } from '../limit/adaptive.ts';
import { priorityMax } from '../wait/fair-queue.ts';
import type { LanePermit } from './permit.ts';
import type { LaneQueue } from './queue.ts';

/** Work is begun if the mean service time and so many mean deviations are left of its deadline, */
const needDeviations = 0.5;
/** or this share of the lane's whole deadline, which is always enough. */
const needShareMax = 0.8;
/** Size at which an unknown service is tried first. */
const sizeAtStart = 10;
/** Weight of one sample in the mean service time. */
const serviceWeight = 1 / 16;
/** Callers that give up before so many best service times say nothing about their patience. */
const patienceMin = 1.5;
/** Waiters allowed in a standing queue besides those that can be served in time. */
const standingMin = 8;
/** Share of the size, at most, that is kept free for callers of a higher priority. */
const sparedShare = 0.25;
/** Weight of one sample in the share of begun work whose caller gave up. */
const wasteWeight = 1 / 32;
/** Such a share makes the measured patience count, for so many samples. */
const wasteMax = 0.3;
const patienceSamples = 2_000;
/** Share of the served callers whose age when served the lane knows; see `#servedMs`. */
const servedShare = 0.9;
/** Times that age after which nobody counts as served any more. */
const unservedMax = 2;
/** Factor by which the best service time is forgotten with each sample. */
const bestRise = 1.001;
/** Share of the measured patience that is relied on. */
const patienceShare = 0.9;
/** One of so many ends is sampled, looked at again each round, if they are closer than 50 us. */
const sampleEvery = 16;
const sampleRound = 64;
const sampleMsMin = 0.05;
const sampleRoundMs = sampleRound * sampleEvery * sampleMsMin;
/** Successes that measure the gap between them, and the rise by which a gap is forgotten. */
const gapSamples = 4;
const gapRise = 1.05;
/** Gaps, and milliseconds at most, between two tries: a slow service has to work them off. */
const gapsPerTry = 2;
const tryMsMax = 60_000;

/**
 * The measured side of a lane: the size that the work behind it bears, its service time, the
 * patience of callers, and so whether a caller can still be served in time.
 *
 * A caller that will hardly be served in time is begun now and then all the same, as a *try*:
 * otherwise a lane could not notice that a service which was stuck or slow is well again.
 */
export class Pace {
  readonly #limit: AdaptiveLimit;
  readonly #deadlineMs: number;
  /** Milliseconds between two tries, at least. */
  readonly #tryMs: number;
  #size: number;
  /** Permits that the lane's own callers hold. */
  #inside = 0;
  /** The same by priority, from 1 on. */
  readonly #insideBy: number[] = new Array<number>(priorityMax + 1).fill(0);
  /** True while a caller waits because room is kept for those of a higher priority. */
  #isSparing = false;
  /** Mean number of permits in use when work ends. */
  #insideMean = 1;
  /** Mean service time, the mean deviation from it, and its best value, slowly forgotten. */
  #serviceMs: number | undefined = undefined;
  #deviationMs = 0;
  #bestMs = Infinity;
  #needMs = 0;
  /** Moment from which on the next try may begin. */
  #tryAt = -Infinity;
  /** Shortest gap between successes, slowly forgotten, and that of the first few. */
  #gapMs = Infinity;
  #firstGapMs = 0;
  /** Successes since that moment, which moves by the time in which nobody was inside. */
  #successes = 0;
  #successesFrom = 0;
  /** Moment at which a permit last came back. */
  #leftAt = -Infinity;
  /** Median age at which callers give up, and age at which nine of ten of the others are served. */
  #leftMs = Infinity;
  #servedMs = 0;
  /** Moment at which a caller was last served, or at which the first gave up. */
  #servedAt = Infinity;
  /** Share of begun work whose caller gave up. */
  #wasted = 0;
  /** Samples for which the measured patience still counts. */
  #patienceFor = 0;
  /** Ends until the next sample, the present stride, and samples left of a round begun then. */
  #skip = 1;
  #every = 1;
  #round = sampleRound;
  #roundAt = 0;

  constructor(sizeMax: number, deadlineMs: number) {
    const size = Math.min(sizeMax, sizeAtStart);
    this.#limit = new AdaptiveLimit(size, sizeMax, deadlineMs);
    this.#size = size;
    this.#deadlineMs = deadlineMs;
    this.#tryMs = Math.min(1_000, Math.max(250, deadlineMs));
  }

  /** Permits that the lane's own callers may hold at once. */
  get size(): number {
    return this.#size;
  }

  /** Changes the largest size. If the old one was reached, the size may double at once. */
  resize(sizeMax: number, now: number): void {
    const isReached = this.#size >= this.#limit.sizeMax;
    const size = isReached ? Math.max(sizeAtStart, 2 * this.#size) : this.#size;
    this.#limit.resize(sizeMax, size, now);
    this.#size = this.#limit.size;
  }

  /** Milliseconds that must be left of a deadline for work to be begun; 0 until known. */
  get needMs(): number {
    return this.#needMs;
  }

  /**
   * Milliseconds for which callers wait; Infinity unless much begun work is wasted on callers that
   * give up. Some that leave early say nothing about the others, so it is never less than the age
   * at which others are served.
   */
  get patienceMs(): number {
    if (this.#patienceFor <= 0) return Infinity;
    const leftMs = this.#leftMs * patienceShare;
    return Math.max(leftMs, this.#servedMs, patienceMin * this.#bestMs);
  }

  /**
   * The largest standing queue, in which the newest is served first: as many waiters as can be
   * served while callers wait, and within the time that the last of them has left. More of them
   * would wait in vain.
   */
  standingMax(lastMs: number): number {
    const withinMs = Math.min(this.#deadlineMs, this.#leftMs, Math.max(0, lastMs));
    // Little's law: the number served within that time.
    const servedMax = (withinMs * this.#insideMean) / (this.#serviceMs ?? 0);
    return standingMin + Math.ceil(servedMax);
  }

  /** Learns the patience of callers from one that gave up at that age, unless that was too soon. */
  giveUp(ageMs: number): void {
    if (ageMs < patienceMin * this.#bestMs) return;
    const leftMs = this.#leftMs === Infinity ? ageMs : this.#leftMs;
    this.#leftMs = leftMs * (ageMs < leftMs ? 0.95 : 1.05);
  }

  /** Learns from begun work whether its caller was served, or gave up, and at which age. */
  #learnPatience(isServed: boolean, ageMs: number, now: number): void {
    if (this.#servedAt === Infinity) this.#servedAt = now;
    if (isServed) {
      const share = ageMs > this.#servedMs ? servedShare : servedShare - 1;
      this.#servedMs = this.#servedMs === 0 ? ageMs : this.#servedMs * (1 + share / 16);
      this.#servedAt = now;
    } else if (ageMs < patienceMin * this.#bestMs) return;
    this.#wasted += ((isServed ? 0 : 1) - this.#wasted) * wasteWeight;
    this.#patienceFor = this.#wasted > wasteMax ? patienceSamples : this.#patienceFor - 1;
  }

  /**
   * True if a caller that gave up at that age did so sooner than others are served, so that it says
   * nothing about load. If nobody has been served for long, no caller counts as hurried.
   */
  #isHurried(ageMs: number, now: number): boolean {
    if (now - this.#servedAt >= Math.max(this.#tryMs, unservedMax * this.#servedMs)) return false;
    return this.#servedMs === 0 || ageMs < this.#servedMs;
  }

  /** True if the expected wait and the service time fit into the time that the caller has left. */
  canWait(permit: LanePermit, now: number, queue: LaneQueue, isYielding: boolean): boolean {
    if (this.isStuck) return false;
    const leftMs = permit.dueAt - now;
    // A caller for whom there is room waits only for the event loop to turn.
    const isNext = queue.size === 0 && this.hasRoom(permit);
    const isFree = this.#inside + queue.size + permit.weight <= this.#size;
    if (isNext || (isYielding && isFree)) return leftMs >= this.#needMs;
    const restMs = Math.min(leftMs, this.patienceMs);
    // In a standing queue the newest is served first, however many wait.
    if (queue.isStanding(now)) return restMs > this.#needMs;
    // Each caller ahead costs one end, and so does its own turn. The time since the last end counts
    // as waited already, which matters where one call at a time takes long.
    const endMs = (this.#serviceMs ?? 0) / this.#size;
    const spareMs = restMs - this.#needMs + Math.min(endMs, now - this.#leftAt);
    const aheadMax = spareMs / endMs - 1;
    return aheadMax >= 0 && queue.hasAhead(permit, aheadMax);
  }

  /**
   * True if the caller fits within the size. The size includes a short queue downstream, where
   * priorities do not count. So that part of it is kept for callers of a higher priority, as much
   * as they use now; but not at the largest size, which may be one without a queue.
   */
  hasRoom({ weight, priority }: Pick<LanePermit, 'weight' | 'priority'>): boolean {
    if (this.isStuck) return false;
    const free = this.#size - this.#inside - weight;
    if (free < 0) return this.#inside === 0;
    const spared = Math.floor(sparedShare * this.#size);
    if (free >= spared || this.#size >= this.#limit.sizeMax) return true;
    let above = 0;
    for (let i = priority + 1; i <= priorityMax; i += 1) above += this.#insideBy[i] as number;
    this.#isSparing = free < above;
    return !this.#isSparing;
  }

  take(permit: LanePermit, now: number): void {
    if (this.#inside === 0) this.#successesFrom += now - Math.max(0, this.#leftAt);
    this.#hold(permit, permit.weight);
    this.#isSparing = false;
    if (this.#isDoubtful(permit, now)) this.#tryAt = now + this.#betweenTries;
  }

  /** Milliseconds between two tries: a slow service has to work off one before the next. */
  get #betweenTries(): number {
    const gapMs = this.#gapMs === Infinity ? this.#firstGapMs : this.#gapMs;
    return Math.max(this.#tryMs, Math.min(tryMsMax, gapsPerTry * gapMs));
  }

  /** Learns the gap between two successes, less the time in which nobody was inside. */
  #learnGap(now: number): void {
    this.#successes += 1;
    const gapMs = (now - this.#successesFrom) / this.#successes;
    this.#firstGapMs = gapMs;
    if (this.#successes < gapSamples) return;
    this.#gapMs = Math.min(this.#gapMs * gapRise, gapMs);
    this.#successes = 0;
    this.#successesFrom = now;
  }

  #hold({ priority }: LanePermit, change: number): void {
    this.#inside += change;
    if (priority > 0) this.#insideBy[priority] = (this.#insideBy[priority] as number) + change;
  }

  /** True while nothing ends in time: then callers enter as tries only. */
  get isStuck(): boolean {
    return this.#limit.isStuck;
  }

  /** True if the caller may begin now: it has room and enough time, or is a try. */
  mayBegin(permit: LanePermit, now: number): boolean {
    if (this.#isDoubtful(permit, now)) return this.mayTry(permit, now);
    return this.hasRoom(permit);
  }

  /**
   * True if a caller that will hardly be served in time may begin as a try, before all who wait:
   * while the service is stuck, or if nobody was inside for a while, so that its time may have
   * changed. A caller with less time than the best service time would only prove what is known: it
   * may try once no better one came for as long again.
   */
  mayTry(permit: LanePermit, now: number): boolean {
    if (now < this.#tryAt || !this.#isDoubtful(permit, now)) return false;
    const isVain = this.isStuck && permit.dueAt - now < this.#bestMs && this.#bestMs < Infinity;
    if (isVain && now < this.#tryAt + this.#betweenTries) return false;
    return this.isStuck || (this.#inside === 0 && now >= this.#leftAt + this.#tryMs);
  }

  /** True if the caller will hardly be served in time. */
  #isDoubtful({ dueAt }: LanePermit, now: number): boolean {
    return this.isStuck || dueAt - now < this.#needMs;
  }

  /** Takes permits back; true if the end of the work was sampled. */
  leave(permit: LanePermit, now: number): boolean {
    const inside = this.#inside;
    this.#hold(permit, -permit.weight);
    this.#leftAt = now;
    this.#skip -= 1;
    // Work that has become slow is sampled from its first end on.
    const isSlow = this.#every > 1 && now - this.#roundAt >= sampleRoundMs;
    if (this.#skip > 0 && !isSlow) return false;
    this.#round -= 1;
    if (this.#round === 0 || isSlow) this.#adjustSampling(now);
    this.#skip = this.#every;
    this.#insideMean += (inside - this.#insideMean) * serviceWeight;
    const { outcome, isWhole, startedAt } = permit;
    const ageMs = now - permit.arrivedAt;
    if (outcome === 'ok') this.#learnGap(now);
    if (outcome === 'aborted') this.giveUp(ageMs);
    if (outcome === 'ok' || outcome === 'aborted')
      this.#learnPatience(outcome === 'ok', ageMs, now);
    if (outcome !== 'failed' && outcome !== 'overloaded') {
      this.#learnService(now - startedAt, isWhole);
    }
    const isOwn = outcome === 'late' && permit.entry.deadlineAt !== undefined;
    if (!(outcome === 'aborted' || isOwn) || !this.#isHurried(ageMs, now)) {
      this.#limit.deadlineMs = Math.min(this.#deadlineMs, this.patienceMs);
      // Spared room counts as used: a size that nobody seems to need would not grow.
      const used = this.#isSparing ? Math.max(inside, this.#size) : inside;
      this.#limit.observe({ outcome, isWhole, startedAt, endedAt: now, inside: used });
      this.#size = this.#limit.size;
    }
    return true;
  }

  #learnService(ms: number, isWhole: boolean): void {
    const serviceMs = this.#serviceMs ?? ms;
    // The time of work that was cut short is a lower bound: one below the mean says nothing.
    if (!isWhole && ms < serviceMs) return;
    // After nothing but late work, a single try replaces the mean.
    const weight = this.isStuck ? 1 : serviceWeight;
    this.#deviationMs += (Math.abs(ms - serviceMs) - this.#deviationMs) * weight;
    this.#serviceMs = serviceMs + (ms - serviceMs) * weight;
    this.#bestMs = Math.min(this.#bestMs * bestRise, this.#serviceMs);
    const needMs = this.#serviceMs + this.#deviationMs * needDeviations;
    this.#needMs = Math.min(needMs, this.#deadlineMs * needShareMax);
  }

  #adjustSampling(now: number): void {
    const isFast = now - this.#roundAt < sampleRound * this.#every * sampleMsMin;
    this.#every = isFast ? sampleEvery : 1;
    this.#round = sampleRound;
    this.#roundAt = now;
  }
}
