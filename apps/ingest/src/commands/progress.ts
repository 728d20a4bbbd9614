import { stderr } from 'node:process';
import { systemClock } from 'spillway';
import type { Harvester } from '../harvest/harvester.ts';
import { sourceName } from '../harvest/ledger.ts';
import type { ProductOutcome } from '../harvest/product.ts';
import type { Ingest } from '../open.ts';
import { nounOf } from './command-line.ts';

const liveMs = 500;
const logMs = 10_000;
const productsMax = 20;

/** Characters of a bar. */
const barWidth = 20;

/** A harvest whose progress is shown. */
interface Told {
  readonly harvester: Harvester;
  readonly ingest: Ingest;
  /** By product: time and position at which it was first seen. */
  readonly begun: Map<string, { readonly at: number; readonly id: number }>;
}

/**
 * Shows the progress of a harvest on stderr until disposed: live on a terminal, else as a line of
 * JSON every ten seconds.
 */
export function tellProgress(
  harvester: Harvester,
  ingest: Ingest,
  signal: AbortSignal,
): Disposable {
  const told: Told = { harvester, ingest, begun: new Map() };
  /** Lines on the screen that the next drawing replaces. */
  let shown = 0;
  const draw = (lines: readonly string[]): void => {
    const up = shown > 0 ? `\x1b[${shown}A\r\x1b[0J` : '';
    const width = stderr.columns ?? 100;
    stderr.write(`${up}${lines.map((line) => `${line.slice(0, width - 1)}\n`).join('')}`);
    shown = lines.length;
  };
  let timer: Disposable;
  const arm = (): void => {
    timer = systemClock.after(stderr.isTTY ? liveMs : logMs, () => {
      if (stderr.isTTY) draw([...rowsOf(told), summaryOf(told)]);
      else stderr.write(`${JSON.stringify(logOf(told))}\n`);
      arm();
    });
  };
  arm();
  // After the message about the stop, drawing continues below it.
  const leave = (): void => {
    shown = 0;
  };
  signal.addEventListener('abort', leave);
  return {
    [Symbol.dispose]() {
      signal.removeEventListener('abort', leave);
      timer[Symbol.dispose]();
      if (shown > 0) draw([]);
    },
  };
}

function runningIn({ outcomes }: Harvester): readonly ProductOutcome[] {
  return outcomes.filter(({ status }) => status === 'running');
}

function logOf({ harvester, ingest }: Told): object {
  const { ratePerSecond, inFlight, retries, throttled, etaMs } = harvester.stats;
  const { bucket, breaker, clock } = ingest;
  const products = runningIn(harvester);
  return {
    time: new Date(clock.now()).toISOString(),
    event: 'progress',
    requests: harvester.requests,
    requestsPerSecond: round(ratePerSecond),
    permittedPerSecond: bucket.stats.ratePerSecond,
    inFlight,
    tokens: round(bucket.stats.tokens),
    pausedSeconds: Math.ceil(bucket.stats.pausedMs / 1000),
    breaker: breaker.stats.state,
    retries,
    throttled,
    etaSeconds: etaMs === undefined ? null : Math.round(etaMs / 1000),
    trades: harvester.trades,
    products: products.map(({ product, nextId, toId, gaps }) => ({ product, nextId, toId, gaps })),
  };
}

function rowsOf(told: Told): readonly string[] {
  const running = runningIn(told.harvester);
  const share = (outcome: ProductOutcome) => fetchedTo(told, outcome) / outcome.toId;
  const room = Math.min(productsMax, Math.max(1, (stderr.rows ?? 24) - 3));
  // If they do not all fit, those with the least progress are shown.
  const isCut = running.length > room;
  const shown = isCut ? running.toSorted((a, b) => share(a) - share(b)) : running;
  const rows = inColumns(shown.slice(0, room).map((outcome) => rowOf(told, outcome)));
  const rest = running.length - rows.length;
  return rest > 0 ? [...rows, `… and ${rest} more, further on`] : rows;
}

/** Estimates the last fetched id: pages arrive long before they are committed together. */
function fetchedTo({ harvester, ingest }: Told, outcome: ProductOutcome): number {
  const { connector } = ingest;
  const { nextId, toId } = outcome;
  const name = sourceName({ exchange: connector.name, ...outcome });
  const source = harvester.stats.sources.find((one) => one.name === name);
  const pages = (source?.window ?? 0) - (source?.inFlight ?? 0);
  const fetched = nextId - 1 + pages * connector.pageSize;
  return Math.min(fetched, toId - 1);
}

function rowOf(told: Told, outcome: ProductOutcome): readonly string[] {
  const { product, toId, gaps } = outcome;
  const id = fetchedTo(told, outcome);
  const last = Math.max(1, toId - 1);
  const now = systemClock.now();
  const begun = told.begun.get(product) ?? { at: now, id };
  told.begun.set(product, begun);
  const perSecond = ((id - begun.id) * 1000) / Math.max(1, now - begun.at);
  const etaMs = ((last - id) * 1000) / perSecond;
  const full = Math.floor((barWidth * id) / last);
  return [
    product,
    `${'█'.repeat(full)}${'░'.repeat(barWidth - full)}`,
    `${Math.floor((100 * id) / last)} %`,
    `${count(id)} of ${count(last)}`,
    `${count(perSecond)} ${nounOf(told.ingest.settings)}s/s`,
    `ETA ${duration(etaMs)}`,
    gaps > 0 ? `${gaps} gaps` : '',
  ];
}

function summaryOf({ harvester, ingest }: Told): string {
  const { ratePerSecond, inFlight, limit, retries, throttled } = harvester.stats;
  const { bucket, breaker } = ingest;
  const { ratePerSecond: permitted, tokens, pausedMs } = bucket.stats;
  return [
    `${round(ratePerSecond)} of ${round(permitted)} requests/s`,
    `${inFlight} of ${limit} in flight`,
    pausedMs > 0 ? `paused for ${duration(pausedMs)}` : `bucket ${round(tokens)}`,
    `breaker ${breaker.stats.state}`,
    `${retries} retries, ${throttled} for 429`,
  ].join(' · ');
}

/** Aligns the first column to the left, and the others to the right. */
function inColumns(rows: readonly (readonly string[])[]): readonly string[] {
  return rows.map((row) => {
    const cells = row.map((cell, at) => {
      const width = Math.max(...rows.map((other) => other[at]?.length ?? 0));
      return at === 0 ? cell.padEnd(width) : cell.padStart(width);
    });
    return cells.join('  ').trimEnd();
  });
}

/** Shows a line on a terminal during long work; removes it on disposal. */
export function tellWork(text: string): Disposable {
  if (stderr.isTTY) stderr.write(text);
  return {
    [Symbol.dispose]() {
      if (stderr.isTTY) stderr.write('\r\x1b[2K');
    },
  };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Formats a duration with sensible precision. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return 'unknown';
  const seconds = Math.round(ms / 1000);
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
