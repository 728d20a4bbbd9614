import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { Clock } from 'spillway';
import type { MetricFamily } from './prometheus.ts';

const resolutionMs = 10;
const windowMs = 10_000;

/** How the process does: memory and processor in all, the event loop of late. */
export interface ProcessFigures {
  readonly uptimeMs: number;
  /** Processor time so far, of all threads. */
  readonly cpuUserMs: number;
  readonly cpuSystemMs: number;
  readonly residentBytes: number;
  readonly heapUsedBytes: number;
  readonly heapTotalBytes: number;
  readonly externalBytes: number;
  /** How late the event loop was, over the last ten seconds or since it was asked before. */
  readonly loopDelayMs: { readonly mean: number; readonly p99: number; readonly max: number };
  /** The share of that time in which the event loop was busy, from 0 to 1. */
  readonly loopUtilisation: number;
}

type LoopFigures = Pick<ProcessFigures, 'loopDelayMs' | 'loopUtilisation'>;

/** Watches the event loop; read by any number of readers, since reading does not begin anew. */
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
    return {
      uptimeMs: process.uptime() * 1000,
      cpuUserMs: user / 1000,
      cpuSystemMs: system / 1000,
      residentBytes: rss,
      heapUsedBytes: heapUsed,
      heapTotalBytes: heapTotal,
      externalBytes: external,
      ...this.#loop(),
    };
  }

  [Symbol.dispose](): void {
    this.#delays.disable();
  }

  /** A window that is over stays readable until the next is, however often it is read. */
  #loop(): LoopFigures {
    const now = this.#clock.now();
    const isOver = now - this.#since >= windowMs;
    if (!isOver && this.#last !== undefined) return this.#last;
    const loop = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(loop, this.#loopBefore);
    const delays = this.#delays;
    // What is measured is the time between two ticks of a timer that is due every 10 ms.
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

/** The same under the names that other exporters of Node processes use. */
export function processMetrics(stats: ProcessFigures): MetricFamily[] {
  const one = (name: string, help: string, value: number): MetricFamily => {
    const type = name.endsWith('_total') ? 'counter' : 'gauge';
    return { name, type, help, samples: [{ labels: {}, value }] };
  };
  const { loopDelayMs, cpuUserMs, cpuSystemMs } = stats;
  const delay = (at: 'mean' | 'p99' | 'max', help: string) =>
    one(`nodejs_eventloop_lag_${at}_seconds`, help, loopDelayMs[at] / 1000);
  return [
    one('process_uptime_seconds', 'Time since the start.', stats.uptimeMs / 1000),
    one('process_cpu_user_seconds_total', 'Processor time in user mode.', cpuUserMs / 1000),
    one('process_cpu_system_seconds_total', 'Processor time in the system.', cpuSystemMs / 1000),
    one('process_cpu_seconds_total', 'Processor time.', (cpuUserMs + cpuSystemMs) / 1000),
    one('process_resident_memory_bytes', 'Resident memory.', stats.residentBytes),
    one('nodejs_heap_size_used_bytes', 'Heap in use by the main thread.', stats.heapUsedBytes),
    one('nodejs_heap_size_total_bytes', 'Heap of the main thread.', stats.heapTotalBytes),
    one('nodejs_external_memory_bytes', 'Memory outside of the heap.', stats.externalBytes),
    delay('mean', 'How late the event loop was on average.'),
    delay('p99', 'How late the event loop was at worst in 99 of 100 cases.'),
    delay('max', 'How late the event loop was at worst.'),
    one('nodejs_eventloop_utilization', 'Share of time it was busy.', stats.loopUtilisation),
  ];
}
