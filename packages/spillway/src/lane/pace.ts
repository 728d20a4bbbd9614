import { AdaptiveLimit } from '../limit/adaptive.ts';
import { priorityMax } from '../wait/fair-queue.ts';
import type { LanePermit } from './permit.ts';
import type { LaneQueue } from './queue.ts';

/**
 * Deviations from the usual service time that must be left of a deadline, besides that time, for
 * work to be begun, and the share of a whole deadline that is always enough.
 */
const needDeviations = 0.5;
const needShareMost = 0.8;
/** Size at which an unknown service is tried first. */
const sizeAtStart = 10;
/** Weight of one end in the usual service time. */
const usualWeight = 1 / 16;
/** Usual service times below which a caller that gives up says nothing about its patience. */
const patienceLeast = 1.5;
/** Waiters of a standing queue besides those that can be served while callers wait. */
const standingMin = 8;
/** Share of the size, at most, that callers leave free for those of a higher priority. */
const sparedShare = 0.25;
/** Weight of one end in the share of begun work whose caller gave up. */
const wasteWeight = 1 / 32;
/** Share of it from which on patience counts, and for how many ends. */
const wasteMost = 0.3;
const impatientEnds = 2_000;
/** Share of callers that are served within the time that all are known to wait. */
const servedShare = 0.9;
const unservedMax = 2;
/** Factor by which the best service time is forgotten with each end. */
const leastRise = 1.001;
/** Share of the patience that is reckoned with. */
const patienceShare = 0.9;
/** Ends that are looked at, out of which number, when they come faster than one in 50 us. */
const sampleEvery = 16;
const sampleRound = 64;
const sampleMsMin = 0.05;
const sampleRoundMs = sampleRound * sampleEvery * sampleMsMin;
/** Ends in time that tell the pace of a service, and the rise by which it is forgotten. */
const pacedEnds = 4;
const pacedRise = 1.05;
/** Ends in time that each try leaves room for, so that work whose caller has gone is worked off. */
const endsPerTry = 2;
const tryMsMax = 60_000;

/**
 * The measured side of a lane: how many at once the work behind it bears, how long it usually
 * takes, and so whether a caller can still be served in time.
 */
export class Pace {
  readonly #limit: AdaptiveLimit;
  readonly #deadlineMs: number;
  /** Milliseconds between two tries while nothing ends in time. */
  readonly #tryMs: number;
  #size: number;
  /** Permits that the lane's own callers hold. */
  #inside = 0;
  /** The same by priority, from 1 on. */
  readonly #insideBy: number[] = new Array<number>(priorityMax + 1).fill(0);
  /** True while a caller waits because room is kept for those of a higher priority. */
  #isKept = false;
  /** Permits in use when work ends, by the last ends. */
  #used = 1;
  #usualMs: number | undefined = undefined;
  /** Mean distance of service times from the usual one. */
  #deviationMs = 0;
  /** The usual service time at its best. */
  #leastMs = Infinity;
  #needMs = 0;
  #tryAt = -Infinity;
  /** Least milliseconds of work from one end in time to the next, and those of the first few. */
  #gapMs = Infinity;
  #firstGapMs = 0;
  /** Ends in time since that moment, which is put off by the time in which nobody was inside. */
  #paced = 0;
  #pacedFrom = 0;
  /** Moment at which a permit last came back. */
  #leftAt = -Infinity;
  /** Age at which half of those who give up do so, and at which most were served. */
  #leftMs = Infinity;
  #servedMs = 0;
  /** Moment at which a caller was last served, or at which the first gave up. */
  #servedAt = Infinity;
  /** Share of begun work whose caller gave up. */
  #wasted = 0;
  /** Ends for which patience still counts. */
  #impatientFor = 0;
  /** Ends until the next one that is looked at. */
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

  /** Changes the most; where the old one was reached, up to twice as many may enter at once. */
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
   * Milliseconds after their arrival for which callers wait; Infinity unless most begun work is
   * wasted on callers that give up. Some that leave early say nothing about the others: it is never
   * less than the time in which others are served.
   */
  get patienceMs(): number {
    if (this.#impatientFor <= 0) return Infinity;
    const leftMs = this.#leftMs * patienceShare;
    return Math.max(leftMs, this.#servedMs, patienceLeast * this.#leastMs);
  }

  /**
   * Most waiters that are of use in a standing queue, where the newest is served first: as many as
   * are served while callers are known to wait, and before the time of the one that is served last
   * is over. Others are refused instead of waiting in vain.
   */
  standingMax(lastMs: number): number {
    const withinMs = Math.min(this.#deadlineMs, this.#leftMs, Math.max(0, lastMs));
    const servedMax = (withinMs * this.#used) / (this.#usualMs ?? 0);
    return standingMin + Math.ceil(servedMax);
  }

  /** Learns from a caller that gave up at that age; too early an age says nothing. */
  giveUp(ageMs: number): void {
    if (ageMs < patienceLeast * this.#leastMs) return;
    const leftMs = this.#leftMs === Infinity ? ageMs : this.#leftMs;
    this.#leftMs = leftMs * (ageMs < leftMs ? 0.95 : 1.05);
  }

  /** Learns from begun work whose caller was served, or gave up. */
  #judge(isServed: boolean, ageMs: number, now: number): void {
    if (this.#servedAt === Infinity) this.#servedAt = now;
    if (isServed) {
      const share = ageMs > this.#servedMs ? servedShare : servedShare - 1;
      this.#servedMs = this.#servedMs === 0 ? ageMs : this.#servedMs * (1 + share / 16);
      this.#servedAt = now;
    } else if (ageMs < patienceLeast * this.#leastMs) return;
    this.#wasted += ((isServed ? 0 : 1) - this.#wasted) * wasteWeight;
    this.#impatientFor = this.#wasted > wasteMost ? impatientEnds : this.#impatientFor - 1;
  }

  /**
   * True if a caller that gave up at that age did so sooner than others are served. Once nobody has
   * been served for long, all who give up count.
   */
  #isHurried(ageMs: number, now: number): boolean {
    if (now - this.#servedAt >= Math.max(this.#tryMs, unservedMax * this.#servedMs)) return false;
    return this.#servedMs === 0 || ageMs < this.#servedMs;
  }

  /** True unless the usual wait and the usual service time do not fit into what is left. */
  canWait(permit: LanePermit, now: number, queue: LaneQueue, isYielding: boolean): boolean {
    if (this.isStuck) return false;
    const leftMs = permit.dueAt - now;
    // Callers for whom there is room wait only for the event loop to turn.
    const isNext = queue.size === 0 && this.hasRoom(permit);
    const isFree = this.#inside + queue.size + permit.weight <= this.#size;
    if (isNext || (isYielding && isFree)) return leftMs >= this.#needMs;
    const restMs = Math.min(leftMs, this.patienceMs);
    // In a standing queue the newest is served first, whoever waits.
    if (queue.isStanding(now)) return restMs > this.#needMs;
    // The wait behind others is that for as many ends and for one more, less the time since the
    // last one: that matters where one at a time takes long.
    const endMs = (this.#usualMs ?? 0) / this.#size;
    const spareMs = restMs - this.#needMs + Math.min(endMs, now - this.#leftAt);
    const aheadMax = spareMs / endMs - 1;
    return aheadMax >= 0 && queue.hasAhead(permit, aheadMax);
  }

  /**
   * True if the caller may enter. The size allows for a short queue downstream, where priorities
   * do not count: callers leave that room to those of a higher priority, as much as such callers
   * use. A size that is as large as it may be says nothing of a queue.
   */
  hasRoom({ weight, priority }: Pick<LanePermit, 'weight' | 'priority'>): boolean {
    if (this.isStuck) return false;
    const free = this.#size - this.#inside - weight;
    if (free < 0) return this.#inside === 0;
    const spared = Math.floor(sparedShare * this.#size);
    if (free >= spared || this.#size >= this.#limit.sizeMax) return true;
    let above = 0;
    for (let i = priority + 1; i <= priorityMax; i += 1) above += this.#insideBy[i] as number;
    this.#isKept = free < above;
    return !this.#isKept;
  }

  take(permit: LanePermit, now: number): void {
    if (this.#inside === 0) this.#pacedFrom += now - Math.max(0, this.#leftAt);
    this.#hold(permit, permit.weight);
    this.#isKept = false;
    if (this.#isDoubtful(permit, now)) this.#tryAt = now + this.#betweenTries;
  }

  /** Milliseconds between two tries: a slow service would never work off tries that come faster. */
  get #betweenTries(): number {
    const gapMs = this.#gapMs === Infinity ? this.#firstGapMs : this.#gapMs;
    return Math.max(this.#tryMs, Math.min(tryMsMax, endsPerTry * gapMs));
  }

  /** Learns how fast work ends in time. */
  #keepPace(now: number): void {
    this.#paced += 1;
    const gapMs = (now - this.#pacedFrom) / this.#paced;
    this.#firstGapMs = gapMs;
    if (this.#paced < pacedEnds) return;
    this.#gapMs = Math.min(this.#gapMs * pacedRise, gapMs);
    this.#paced = 0;
    this.#pacedFrom = now;
  }

  #hold({ priority }: LanePermit, change: number): void {
    this.#inside += change;
    if (priority > 0) this.#insideBy[priority] = (this.#insideBy[priority] as number) + change;
  }

  /** True while nothing ends in time: then only a few callers try. */
  get isStuck(): boolean {
    return this.#limit.isStuck;
  }

  /** True if there is room and enough time, or a caller may try. */
  mayBegin(permit: LanePermit, now: number): boolean {
    if (this.#isDoubtful(permit, now)) return this.mayTry(permit, now);
    return this.hasRoom(permit);
  }

  /**
   * True if a caller that will hardly be served in time may try now, before all who wait: because
   * nothing ends in time, or because nobody was inside for a while who would show what is usual.
   * Callers with less time than work takes at its best would only prove what is known: they try
   * when nobody else came for as long as lies between two tries.
   */
  mayTry(permit: LanePermit, now: number): boolean {
    if (now < this.#tryAt || !this.#isDoubtful(permit, now)) return false;
    const isVain = this.isStuck && permit.dueAt - now < this.#leastMs && this.#leastMs < Infinity;
    if (isVain && now < this.#tryAt + this.#betweenTries) return false;
    return this.isStuck || (this.#inside === 0 && now >= this.#leftAt + this.#tryMs);
  }

  /** True if the caller will hardly be served in time. */
  #isDoubtful({ dueAt }: LanePermit, now: number): boolean {
    return this.isStuck || dueAt - now < this.#needMs;
  }

  /** Takes permits back; true if it learnt from how the work ended. */
  leave(permit: LanePermit, now: number): boolean {
    const inside = this.#inside;
    this.#hold(permit, -permit.weight);
    this.#leftAt = now;
    this.#skip -= 1;
    // Work that has become slow is looked at from its first end on.
    const isSlow = this.#every > 1 && now - this.#roundAt >= sampleRoundMs;
    if (this.#skip > 0 && !isSlow) return false;
    this.#round -= 1;
    if (this.#round === 0 || isSlow) this.#adjustSampling(now);
    this.#skip = this.#every;
    this.#used += (inside - this.#used) * usualWeight;
    const { outcome, isWhole, startedAt } = permit;
    const ageMs = now - permit.arrivedAt;
    if (outcome === 'ok') this.#keepPace(now);
    if (outcome === 'aborted') this.giveUp(ageMs);
    if (outcome === 'ok' || outcome === 'aborted') this.#judge(outcome === 'ok', ageMs, now);
    if (outcome !== 'failed' && outcome !== 'overloaded') {
      this.#measure(now - startedAt, isWhole);
    }
    // Callers that leave sooner than others are served are hurried: that says nothing of load.
    const isOwn = outcome === 'late' && permit.entry.deadlineAt !== undefined;
    if (!(outcome === 'aborted' || isOwn) || !this.#isHurried(ageMs, now)) {
      this.#limit.deadlineMs = Math.min(this.#deadlineMs, this.patienceMs);
      // Room that is kept counts as used: a size that nobody seems to need would not grow.
      const used = this.#isKept ? Math.max(inside, this.#size) : inside;
      this.#limit.observe({ outcome, isWhole, startedAt, endedAt: now, inside: used });
      this.#size = this.#limit.size;
    }
    return true;
  }

  #measure(ms: number, isWhole: boolean): void {
    const usualMs = this.#usualMs ?? ms;
    // Work that was cut short would have taken longer: it says something only if it did already.
    if (!isWhole && ms < usualMs) return;
    // A single try tells what is usual now, if all before it were late.
    const weight = this.isStuck ? 1 : usualWeight;
    this.#deviationMs += (Math.abs(ms - usualMs) - this.#deviationMs) * weight;
    this.#usualMs = usualMs + (ms - usualMs) * weight;
    this.#leastMs = Math.min(this.#leastMs * leastRise, this.#usualMs);
    const needMs = this.#usualMs + this.#deviationMs * needDeviations;
    this.#needMs = Math.min(needMs, this.#deadlineMs * needShareMost);
  }

  #adjustSampling(now: number): void {
    const isFast = now - this.#roundAt < sampleRound * this.#every * sampleMsMin;
    this.#every = isFast ? sampleEvery : 1;
    this.#round = sampleRound;
    this.#roundAt = now;
  }
}
