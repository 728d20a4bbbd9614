import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { Clock, MetricFamily } from 'spillway';

const resolutionMs = 10;
const windowMs = 10_000;

/** Memory and processor time of the process so far, and its event loop in the last seconds. */
export interface ProcessFigures {
  readonly kind: 'process';
  readonly uptimeMs: number;
  /** Processor time so far, of all threads. */
  readonly cpuUserMs: number;
  readonly cpuSystemMs: number;
  readonly residentBytes: number;
  readonly heapUsedBytes: number;
  readonly heapTotalBytes: number;
  readonly externalBytes: number;
  /** Lateness of the event loop, over the last ten seconds or since it was asked before. */
  readonly loopDelayMs: { readonly mean: number; readonly p99: number; readonly max: number };
  /** The share of that time in which the event loop was busy, from 0 to 1. */
  readonly loopUtilisation: number;
}

type LoopFigures = Pick<ProcessFigures, 'loopDelayMs' | 'loopUtilisation'>;

/** Watches the process and its event loop, for any number of readers: reading resets nothing. */
export class ProcessStats implements Disposable {
  readonly #clock: Clock;
  readonly #delays = monitorEventLoopDelay({ resolution: resolutionMs });
  #since: number;
  #loopBefore = performance.eventLoopUtilization();
  #last: LoopFigures | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#since = clock.now();
    this.#delays.enable();
  }

  get stats(): ProcessFigures {
    const { user, system } = process.cpuUsage();
    const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
    const { loopDelayMs, loopUtilisation } = this.#loop();
    return {
      kind: 'process',
      uptimeMs: process.uptime() * 1000,
      cpuUserMs: user / 1000,
      cpuSystemMs: system / 1000,
      residentBytes: rss,
      heapUsedBytes: heapUsed,
      heapTotalBytes: heapTotal,
      externalBytes: external,
      loopDelayMs,
      loopUtilisation,
    };
  }

  [Symbol.dispose](): void {
    this.#delays.disable();
  }

  /** The figures of the last window that is over; of the first one while it runs. */
  #loop(): LoopFigures {
    const now = this.#clock.now();
    const isOver = now - this.#since >= windowMs;
    if (!isOver && this.#last !== undefined) return this.#last;
    const loop = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(loop, this.#loopBefore);
    const delays = this.#delays;
    // The histogram holds the time between two ticks of a timer that is due every 10 ms.
    const late = (ns: number) => (delays.count === 0 ? 0 : Math.max(0, ns / 1e6 - resolutionMs));
    const loopDelayMs = {
      mean: late(delays.mean),
      p99: late(delays.percentile(99)),
      max: late(delays.max),
    };
    const figures = { loopDelayMs, loopUtilisation: utilization };
    if (!isOver) return figures;
    this.#last = figures;
    this.#since = now;
    this.#loopBefore = loop;
    delays.reset();
    return figures;
  }
}

/** The process under the names that other exporters of Node processes use. */
export function processMetrics(stats: ProcessFigures): MetricFamily[] {
  const { loopDelayMs, cpuUserMs, cpuSystemMs } = stats;
  const values = {
    process_uptime_seconds: stats.uptimeMs / 1000,
    process_cpu_user_seconds_total: cpuUserMs / 1000,
    process_cpu_system_seconds_total: cpuSystemMs / 1000,
    process_cpu_seconds_total: (cpuUserMs + cpuSystemMs) / 1000,
    process_resident_memory_bytes: stats.residentBytes,
    nodejs_heap_size_used_bytes: stats.heapUsedBytes,
    nodejs_heap_size_total_bytes: stats.heapTotalBytes,
    nodejs_external_memory_bytes: stats.externalBytes,
    nodejs_eventloop_lag_mean_seconds: loopDelayMs.mean / 1000,
    nodejs_eventloop_lag_p99_seconds: loopDelayMs.p99 / 1000,
    nodejs_eventloop_lag_max_seconds: loopDelayMs.max / 1000,
    nodejs_eventloop_utilization: stats.loopUtilisation,
  };
  return Object.entries(values).map(([name, value]) => {
    const type = name.endsWith('_total') ? 'counter' : 'gauge';
    return { name, type, samples: [{ labels: {}, value }] };
  });
}
