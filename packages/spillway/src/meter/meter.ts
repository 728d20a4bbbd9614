import { Histogram, type Quantiles } from './histogram.ts';

/** End of a piece of work, as it is counted. */
export type Ending = 'ok' | 'failed' | 'late' | 'aborted';

/** The reason of a refusal; `aborted` means that the caller left while it waited. */
export type Refusal = 'aborted' | 'cleared' | 'closed' | 'deadline' | 'full' | 'late' | 'stale';

export interface MeterStats {
  /** Callers that ever arrived. */
  readonly arrived: number;
  /** Callers that were ever let in. */
  readonly started: number;
  /** Pieces of work that ever ended. */
  readonly finished: number;
  /**
   * The same by outcome: `ok` in time, `failed` with an error, `late` after the
   * deadline, `aborted` after the caller gave up.
   */
  readonly outcomes: Readonly<Record<Ending, number>>;
  /** Callers that were ever refused, by reason. */
  readonly refused: Readonly<Record<Refusal, number>>;
  /** Arrivals per second (λ), over the last 10 to 20 seconds; so are all fields below. */
  readonly arrivalsPerSecond: number;
  /** Milliseconds from arrival to start. */
  readonly waitMs: Quantiles;
  /** Milliseconds from start to end (W), of work that ran to its end. */
  readonly serviceMs: Quantiles;
  /** Number inside, averaged over time (L), as measured. */
  readonly insideMean: number;
  /** The same by Little's law: starts per second times mean service time. */
  readonly insideByLittle: number;
}

const windowMs = 10_000;

/** One window of time. Two take turns, so that the numbers cover one to two windows. */
class Window {
  startedAt = 0;
  arrived = 0;
  /**
   * The integral of the number inside over time. In the current window the callers inside now still
   * have to be added (`#insideNowMs`), so that a start or an end costs one addition.
   */
  insideMs = 0;
  readonly waits = new Histogram();
  readonly services = new Histogram();

  begin(now: number): void {
    this.startedAt = now;
    this.arrived = 0;
    this.insideMs = 0;
    this.waits.clear();
    this.services.clear();
  }
}

/** Counts the callers of a lane in fixed memory, at some 50 ns for each. */
export class Meter {
  #current = new Window();
  #previous = new Window();
  /** Counts of windows that are over. */
  #arrived = 0;
  #started = 0;
  readonly #ended: Record<Ending, number> = { ok: 0, failed: 0, late: 0, aborted: 0 };
  readonly #refused: Record<Refusal, number> = {
    aborted: 0,
    cleared: 0,
    closed: 0,
    deadline: 0,
    full: 0,
    late: 0,
    stale: 0,
  };
  #inside = 0;

  constructor(now: number) {
    this.#current.begin(now);
    this.#previous.begin(now);
  }

  arrive(): void {
    this.#current.arrived += 1;
  }

  start(now: number, waitMs: number): void {
    const window = this.#windowAt(now);
    window.insideMs -= now - window.startedAt;
    window.waits.record(waitMs);
    this.#inside += 1;
  }

  /** Counts work that ended; without `serviceMs` if it did not run to its end. */
  finish(now: number, ending: Ending, serviceMs: number | undefined): void {
    const window = this.#windowAt(now);
    window.insideMs += now - window.startedAt;
    if (serviceMs !== undefined) window.services.record(serviceMs);
    this.#ended[ending] += 1;
    this.#inside -= 1;
  }

  /** Counts work at its end, if nothing was known of it before. */
  pass(
    now: number,
    ending: Ending,
    times: { readonly waitMs: number; readonly serviceMs: number },
  ): void {
    const window = this.#windowAt(now);
    window.waits.record(times.waitMs);
    window.insideMs += times.serviceMs;
    window.services.record(times.serviceMs);
    this.#ended[ending] += 1;
  }

  refuse(reason: Refusal): void {
    this.#refused[reason] += 1;
  }

  /**
   * Milliseconds until a caller that comes now would be served, behind the queue, at the measured
   * rate of service. Undefined while no work has ended.
   */
  retryAfterMs(waiting: number, permits: number): number | undefined {
    const { count, sum } = Histogram.total([this.#current.services, this.#previous.services]);
    return count === 0 ? undefined : ((waiting + 1) * sum) / count / permits;
  }

  #windowAt(now: number): Window {
    if (now - this.#current.startedAt >= windowMs) this.#rotate(now);
    return this.#current;
  }

  #rotate(now: number): void {
    const old = this.#previous;
    this.#arrived += old.arrived;
    this.#started += old.waits.count;
    this.#current.insideMs += this.#insideNowMs(now);
    this.#previous = this.#current;
    this.#current = old;
    old.begin(now);
    // After a long silence, both windows are out of date.
    if (now - this.#previous.startedAt >= 2 * windowMs) this.#rotate(now);
  }

  #insideNowMs(now: number): number {
    return this.#inside * (now - this.#current.startedAt);
  }

  stats(now: number): MeterStats {
    this.#windowAt(now);
    const windows = [this.#previous, this.#current];
    const spanMs = Math.max(1, now - Math.min(...windows.map((window) => window.startedAt)));
    const serviceMs = Histogram.quantiles(windows.map((window) => window.services));
    const waitMs = Histogram.quantiles(windows.map((window) => window.waits));
    const arrived = this.#previous.arrived + this.#current.arrived;
    const insideMs = this.#previous.insideMs + this.#current.insideMs + this.#insideNowMs(now);
    const { ok, failed, late, aborted } = this.#ended;
    return {
      arrived: this.#arrived + arrived,
      started: this.#started + waitMs.count,
      finished: ok + failed + late + aborted,
      outcomes: { ok, failed, late, aborted },
      refused: { ...this.#refused },
      arrivalsPerSecond: (arrived * 1000) / spanMs,
      waitMs,
      serviceMs,
      insideMean: insideMs / spanMs,
      insideByLittle: (waitMs.count * serviceMs.mean) / spanMs,
    };
  }
}
