import { type Clock, systemClock } from 'spillway';
import type { Harvester } from '../harvesting/harvester.ts';
import type { ProductOutcome } from '../harvesting/product-outcome.ts';
import type { Ingest } from '../open-ingest.ts';

/** Where progress goes: a terminal shows it live, anything else gets a line now and then. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

const liveMs = 500;
const logMs = 10_000;
const productsMax = 20;

interface Pace {
  readonly at: number;
  readonly nextId: number;
}

/** Tells how a harvest gets on, until it is disposed. */
export class Progress implements Disposable {
  readonly #harvester: Harvester;
  readonly #ingest: Ingest;
  readonly #stream: ProgressStream;
  readonly #clock: Clock;
  #timer: Disposable | undefined;
  /** Lines on the screen that the next ones replace. */
  #shown = 0;
  /** By product: when it was first seen, and where it was. */
  readonly #begun = new Map<string, Pace>();

  constructor(
    harvester: Harvester,
    ingest: Ingest,
    stream: ProgressStream = process.stderr,
    clock: Clock = systemClock,
  ) {
    this.#harvester = harvester;
    this.#ingest = ingest;
    this.#stream = stream;
    this.#clock = clock;
    this.#arm();
  }

  [Symbol.dispose](): void {
    this.#timer?.[Symbol.dispose]();
    if (this.#shown > 0) this.#draw([]);
  }

  #arm(): void {
    this.#timer = this.#clock.after(this.#stream.isTTY ? liveMs : logMs, () => {
      this.#tell();
      this.#arm();
    });
  }

  #tell(): void {
    const running = this.#harvester.outcomes.filter(({ status }) => status === 'running');
    if (!this.#stream.isTTY) this.#log(running);
    else this.#draw([...this.#rows(running), this.#summary()]);
  }

  #log(running: readonly ProductOutcome[]): void {
    const { ratePerSecond, inFlight, retries, throttled, etaMs } = this.#harvester.stats;
    const { bucket, breaker, clock } = this.#ingest;
    const line = {
      time: new Date(clock.now()).toISOString(),
      event: 'progress',
      requests: this.#harvester.requests,
      requestsPerSecond: round(ratePerSecond),
      permittedPerSecond: bucket.stats.ratePerSecond,
      inFlight,
      tokens: round(bucket.stats.tokens),
      breaker: breaker.stats.state,
      retries,
      throttled,
      etaSeconds: etaMs === undefined ? null : Math.round(etaMs / 1000),
      trades: this.#harvester.trades,
      products: running.map(({ product, nextId, toId, gaps }) => ({ product, nextId, toId, gaps })),
    };
    this.#stream.write(`${JSON.stringify(line)}\n`);
  }

  #rows(running: readonly ProductOutcome[]): readonly string[] {
    const width = Math.max(0, ...running.map(({ product }) => product.length));
    const share = ({ nextId, toId }: ProductOutcome) => nextId / Math.max(1, toId);
    const sorted = running.toSorted((a, b) => share(a) - share(b));
    const room = Math.min(productsMax, Math.max(1, (this.#stream.rows ?? 24) - 3));
    const rows = sorted.slice(0, room).map((outcome) => this.#row(outcome, width));
    const rest = sorted.length - rows.length;
    return rest > 0 ? [...rows, `… and ${rest} more, further on`] : rows;
  }

  #row(outcome: ProductOutcome, width: number): string {
    const { product, nextId, toId, gaps } = outcome;
    const now = this.#clock.now();
    const begun = this.#begun.get(product) ?? { at: now, nextId };
    this.#begun.set(product, begun);
    const perSecond = ((nextId - begun.nextId) * 1000) / Math.max(1, now - begun.at);
    const etaMs = ((toId - nextId) * 1000) / perSecond;
    const percent = Math.floor((100 * nextId) / Math.max(1, toId));
    const parts = [
      product.padEnd(width),
      `${String(percent).padStart(3)} %`,
      `${count(nextId)} of ${count(toId)}`,
      `${count(perSecond)} trades/s`,
      `ETA ${duration(etaMs)}`,
      ...(gaps > 0 ? [`${gaps} gaps`] : []),
    ];
    return parts.join('  ');
  }

  #summary(): string {
    const { ratePerSecond, inFlight, limit, retries, throttled } = this.#harvester.stats;
    const { bucket, breaker } = this.#ingest;
    const { ratePerSecond: permitted, tokens } = bucket.stats;
    return [
      `${round(ratePerSecond)} of ${round(permitted)} requests/s`,
      `${inFlight} of ${limit} in flight`,
      `bucket ${round(tokens)}`,
      `breaker ${breaker.stats.state}`,
      `${retries} retries, ${throttled} of them 429`,
    ].join(' · ');
  }

  #draw(lines: readonly string[]): void {
    const up = this.#shown > 0 ? `\x1b[${this.#shown}A\r\x1b[0J` : '';
    const width = this.#stream.columns ?? 100;
    this.#stream.write(`${up}${lines.map((line) => `${line.slice(0, width - 1)}\n`).join('')}`);
    this.#shown = lines.length;
  }
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Milliseconds in words that are no more exact than they are true. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return 'unknown';
  const seconds = Math.round(ms / 1000);
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
