import { type Clock, systemClock } from 'spillway';
import type { Harvester } from '../harvest/harvester.ts';
import { sourceName } from '../harvest/ledger.ts';
import type { ProductOutcome } from '../harvest/product.ts';
import type { Ingest } from '../open.ts';
import { nounOf } from './command-line.ts';

/** Output for progress: a terminal shows it live, anything else gets a line now and then. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

const liveMs = 500;
const logMs = 10_000;
const productsMax = 20;

/** Characters of a bar. */
const barWidth = 20;

interface Pace {
  readonly at: number;
  readonly id: number;
}

/** Tells how a harvest gets on, until it is disposed. */
export class Progress implements Disposable {
  readonly #harvester: Harvester;
  readonly #ingest: Ingest;
  readonly #stream: ProgressStream;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  #timer: Disposable | undefined;
  /** Lines on the screen that the next ones replace. */
  #shown = 0;
  /** By product: when it was first seen, and where it was. */
  readonly #begun = new Map<string, Pace>();

  constructor(
    harvester: Harvester,
    ingest: Ingest,
    signal: AbortSignal,
    stream: ProgressStream = process.stderr,
    clock: Clock = systemClock,
  ) {
    this.#harvester = harvester;
    this.#ingest = ingest;
    this.#stream = stream;
    this.#clock = clock;
    this.#signal = signal;
    signal.addEventListener('abort', this.#leave);
    this.#arm();
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this.#leave);
    this.#timer?.[Symbol.dispose]();
    if (this.#shown > 0) this.#draw([]);
  }

  /** Moves on below the words about the stop, so that the next lines come after them. */
  readonly #leave = (): void => {
    this.#shown = 0;
  };

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
    const share = (outcome: ProductOutcome) => this.#fetchedTo(outcome) / outcome.toId;
    const room = Math.min(productsMax, Math.max(1, (this.#stream.rows ?? 24) - 3));
    // In an order that stays while all can be seen, else those that are least far.
    const isCut = running.length > room;
    const shown = isCut ? running.toSorted((a, b) => share(a) - share(b)) : running;
    const rows = inColumns(shown.slice(0, room).map((outcome) => this.#row(outcome)));
    const rest = running.length - rows.length;
    return rest > 0 ? [...rows, `… and ${rest} more, further on`] : rows;
  }

  /** Counts what has come before it is committed: a commit takes many pages together. */
  #fetchedTo({ product, generation, nextId, toId }: ProductOutcome): number {
    const { connector, settings } = this.#ingest;
    const name = sourceName({ exchange: connector.name, product, generation });
    const source = this.#harvester.stats.sources.find((one) => one.name === name);
    const pages = (source?.window ?? 0) - (source?.inFlight ?? 0);
    const fetched = nextId - 1 + pages * (settings.limit ?? connector.pageSize);
    return Math.min(fetched, toId - 1);
  }

  #row(outcome: ProductOutcome): readonly string[] {
    const { product, toId, gaps } = outcome;
    const id = this.#fetchedTo(outcome);
    const last = Math.max(1, toId - 1);
    const now = this.#clock.now();
    const begun = this.#begun.get(product) ?? { at: now, id };
    this.#begun.set(product, begun);
    const perSecond = ((id - begun.id) * 1000) / Math.max(1, now - begun.at);
    const etaMs = ((last - id) * 1000) / perSecond;
    const full = Math.floor((barWidth * id) / last);
    return [
      product,
      `${'█'.repeat(full)}${'░'.repeat(barWidth - full)}`,
      `${Math.floor((100 * id) / last)} %`,
      `${count(id)} of ${count(last)}`,
      `${count(perSecond)} ${nounOf(this.#ingest.settings)}s/s`,
      `ETA ${duration(etaMs)}`,
      gaps > 0 ? `${gaps} gaps` : '',
    ];
  }

  #summary(): string {
    const { ratePerSecond, inFlight, limit, retries, throttled } = this.#harvester.stats;
    const { bucket, breaker } = this.#ingest;
    const { ratePerSecond: permitted, tokens, pausedMs } = bucket.stats;
    return [
      `${round(ratePerSecond)} of ${round(permitted)} requests/s`,
      `${inFlight} of ${limit} in flight`,
      pausedMs > 0 ? `paused for ${duration(pausedMs)}` : `bucket ${round(tokens)}`,
      `breaker ${breaker.stats.state}`,
      `${retries} retries, ${throttled} for 429`,
    ].join(' · ');
  }

  #draw(lines: readonly string[]): void {
    const up = this.#shown > 0 ? `\x1b[${this.#shown}A\r\x1b[0J` : '';
    const width = this.#stream.columns ?? 100;
    this.#stream.write(`${up}${lines.map((line) => `${line.slice(0, width - 1)}\n`).join('')}`);
    this.#shown = lines.length;
  }
}

/** Names at their left edge, what comes after them at its right. */
function inColumns(rows: readonly (readonly string[])[]): readonly string[] {
  return rows.map((row) => {
    const cells = row.map((cell, at) => {
      const width = Math.max(...rows.map((other) => other[at]?.length ?? 0));
      return at === 0 ? cell.padEnd(width) : cell.padStart(width);
    });
    return cells.join('  ').trimEnd();
  });
}

/** Says on a terminal what takes a while; the line is gone when it is disposed. */
export function tellWork(text: string, stream: ProgressStream = process.stderr): Disposable {
  if (stream.isTTY) stream.write(text);
  let isTold = stream.isTTY === true;
  return {
    [Symbol.dispose]() {
      if (isTold) stream.write('\r\x1b[2K');
      isTold = false;
    },
  };
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
