import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { FromWorker, ThreadStart, ToWorker } from './wire.ts';

/** What a thread tells its owner. */
export interface ThreadEvents {
  message(message: FromWorker): void;
  /** The thread has ended, for this reason if it was not asked to. */
  exit(error: unknown): void;
}

/** One worker thread, as the pool sees it. */
export interface Thread {
  /** Throws a `DataCloneError`, and sends nothing, if the message cannot be copied. */
  post(message: ToWorker, transfer: readonly ArrayBuffer[]): void;
  /** Ends it at once, whatever it does. */
  terminate(): void;
  /** The share of its life that it was busy, from 0 to 1. */
  readonly utilisation: number;
}

/** Where threads come from. */
export type Threads = (
  start: ThreadStart,
  events: ThreadEvents,
  options: { readonly heapMbMax: number | undefined },
) => Thread;

/** Real threads. */
export const workerThreads: Threads = (workerData, events, { heapMbMax }) => {
  // The build turns `.ts` imports into `.js`, but not the names in URLs.
  const entry = new URL(`./thread/entry${extname(import.meta.url)}`, import.meta.url);
  const resourceLimits = heapMbMax === undefined ? {} : { maxOldGenerationSizeMb: heapMbMax };
  // A switch that says how to read a program from the command line keeps a thread from starting.
  const isInherited = !process.execArgv.some((name) => name.startsWith('--input-type'));
  const options = { workerData, resourceLimits, ...(isInherited ? {} : { execArgv: [] }) };
  const worker = new Worker(entry, options);
  let failure: unknown;
  worker.on('message', events.message);
  worker.on('error', (error) => {
    failure = error;
  });
  worker.on('exit', (code) => {
    events.exit(failure ?? (code === 0 ? undefined : new Error(`it exited with code ${code}`)));
  });
  return {
    post: (message, transfer) => worker.postMessage(message, transfer),
    terminate: () => void worker.terminate(),
    get utilisation() {
      return worker.performance.eventLoopUtilization().utilization;
    },
  };
};
