import { Histogram, type Quantiles } from './histogram.ts';

/** Why work was turned away. `aborted` is the caller's own doing: it left while it waited. */
export type Refusal = 'aborted' | 'closed' | 'deadline' | 'full' | 'stale';

export interface MeterStats {
  /** How many ever came. */
  readonly arrived: number;
  /** How many were ever let in. */
  readonly started: number;
  /** How many ever ended. */
  readonly finished: number;
  /** How many were ever turned away, by reason. */
  readonly refused: Readonly<Record<Refusal, number>>;
  /** Arrivals per second (λ), over the last ten to twenty seconds, as all that follows. */
  readonly arrivalsPerSecond: number;
  /** Milliseconds from arrival to start. */
  readonly waitMs: Quantiles;
  /** Milliseconds from start to end (W). */
  readonly serviceMs: Quantiles;
  /** How many were inside, averaged over time (L), as it was measured. */
  readonly insideMean: number;
  /** The same by Little's law: starts per second times mean service time. */
  readonly insideByLittle: number;
}

const windowMs = 10_000;

/** One window of time; two of them take turns, so that what is read covers one to two windows. */
class Window {
  startedAt = 0;
  arrived = 0;
  started = 0;
  /** The integral of how many were inside over time. */
  insideMs = 0;
  readonly waits = new Histogram();
  readonly services = new Histogram();

  begin(now: number): void {
    this.startedAt = now;
    this.arrived = 0;
    this.started = 0;
    this.insideMs = 0;
    this.waits.clear();
    this.services.clear();
  }
}

/** Counts what passes through a lane, in fixed memory, at some 20 ns a call. */
export class Meter {
  #current = new Window();
  #previous = new Window();
  #arrived = 0;
  #started = 0;
  #finished = 0;
  readonly #refused: Record<Refusal, number> = {
    aborted: 0,
    closed: 0,
    deadline: 0,
    full: 0,
    stale: 0,
  };
  #inside = 0;
  #changedAt: number;
  #serviceMsMean = 0;

  constructor(now: number) {
    this.#changedAt = now;
    this.#current.begin(now);
    this.#previous.begin(now);
  }

  get inside(): number {
    return this.#inside;
  }

  arrive(): void {
    this.#arrived += 1;
    this.#current.arrived += 1;
  }

  start(now: number, waitMs: number): void {
    this.#advance(now);
    this.#started += 1;
    this.#inside += 1;
    this.#current.started += 1;
    this.#current.waits.record(waitMs);
  }

  finish(now: number, serviceMs: number): void {
    this.#advance(now);
    this.#finished += 1;
    this.#inside -= 1;
    this.#current.services.record(serviceMs);
    const weight = this.#finished < 10 ? 1 / this.#finished : 0.1;
    this.#serviceMsMean += (serviceMs - this.#serviceMsMean) * weight;
  }

  /** Counts work that is over, when its start and its length are known only then. */
  pass(now: number, times: { readonly waitMs: number; readonly serviceMs: number }): void {
    this.start(now, times.waitMs);
    this.#current.insideMs += times.serviceMs;
    this.finish(now, times.serviceMs);
  }

  refuse(reason: Refusal): void {
    this.#refused[reason] += 1;
  }

  /** When one who comes now would be served: the queue before it, at the observed rate of service. */
  retryAfterMs(waiting: number, permits: number): number {
    if (this.#finished === 0) return 1000;
    return ((waiting + 1) * this.#serviceMsMean) / permits;
  }

  #advance(now: number): void {
    this.#current.insideMs += this.#inside * (now - this.#changedAt);
    this.#changedAt = now;
    if (now - this.#current.startedAt >= windowMs) this.#rotate(now);
  }

  #rotate(now: number): void {
    const old = this.#previous;
    this.#previous = this.#current;
    this.#current = old;
    old.begin(now);
    // After a long silence the window before the silence says nothing about now.
    if (now - this.#previous.startedAt >= 2 * windowMs) this.#previous.begin(now);
  }

  /** Reads several meters as if all had been one: a lane together with the lanes inside it. */
  static stats(meters: readonly Meter[], now: number): MeterStats {
    for (const meter of meters) meter.#advance(now);
    const windows = meters.flatMap((meter) => [meter.#previous, meter.#current]);
    const sum = (value: (window: Window) => number): number =>
      windows.reduce((total, window) => total + value(window), 0);
    const total = (value: (meter: Meter) => number): number =>
      meters.reduce((all, meter) => all + value(meter), 0);
    const refused = (reason: Refusal) => total((meter) => meter.#refused[reason]);
    const spanMs = Math.max(1, now - Math.min(...windows.map((window) => window.startedAt)));
    const serviceMs = Histogram.quantiles(windows.map((window) => window.services));
    return {
      arrived: total((meter) => meter.#arrived),
      started: total((meter) => meter.#started),
      finished: total((meter) => meter.#finished),
      refused: {
        aborted: refused('aborted'),
        closed: refused('closed'),
        deadline: refused('deadline'),
        full: refused('full'),
        stale: refused('stale'),
      },
      arrivalsPerSecond: (sum((window) => window.arrived) * 1000) / spanMs,
      waitMs: Histogram.quantiles(windows.map((window) => window.waits)),
      serviceMs,
      insideMean: sum((window) => window.insideMs) / spanMs,
      insideByLittle: (sum((window) => window.started) * serviceMs.mean) / spanMs,
    };
  }
}
