import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { threadFile } from '../base/thread-file.ts';
import type { FromWorker, ThreadStart, ToWorker } from './messages.ts';
import type { PoolOptions } from './options.ts';

/** The receiver of a thread's messages. */
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
  /** Decides whether the thread keeps the process alive. */
  setRef(isHeld: boolean): void;
  /** The share of its life that it was busy, from 0 to 1. */
  readonly utilisation: number;
}

/** The options of a pool that its threads are made with. */
export type ThreadOptions = Pick<PoolOptions, 'env' | 'resourceLimits'>;

/** Starts a thread. Throws if the system has none to give. */
export type Threads = (start: ThreadStart, events: ThreadEvents, options: ThreadOptions) => Thread;

/** Real threads. */
export const workerThreads: Threads = (start, events, { env, resourceLimits }) => {
  // This switch, which is for programs given on the command line, keeps threads from starting.
  const isInherited = !process.execArgv.some((name) => name.startsWith('--input-type'));
  const { port1: port, port2 } = new MessageChannel();
  const worker = new Worker(threadFile('pool-worker'), {
    workerData: { start, port: port2 },
    transferList: [port2],
    env: env ?? process.env,
    resourceLimits: resourceLimits ?? {},
    ...(isInherited ? {} : { execArgv: [] }),
  });
  let failure: unknown;
  const fail = (error: unknown) => {
    // The message cannot be read, so nobody knows whose result it is.
    failure = error;
    void worker.terminate();
  };
  const receive = () => {
    try {
      return receiveMessageOnPort(port);
    } catch (error) {
      fail(error);
      return undefined;
    }
  };
  /** Reads the other messages that are there: left to the port, each would take a turn. */
  const takeRest = () => {
    for (let next = receive(); next !== undefined; next = receive()) events.message(next.message);
  };
  port.on('message', (message) => {
    events.message(message);
    takeRest();
  });
  port.on('messageerror', fail);
  worker.on('error', (error) => {
    failure = error;
  });
  worker.on('exit', (code) => {
    takeRest();
    port.close();
    events.exit(failure ?? (code === 0 ? undefined : new Error(`it exited with code ${code}`)));
  });
  return {
    post: (message, transfer) => port.postMessage(message, transfer),
    terminate: () => void worker.terminate(),
    setRef: (isHeld) => {
      for (const handle of [worker, port]) {
        if (isHeld) handle.ref();
        else handle.unref();
      }
    },
    get utilisation() {
      return worker.performance.eventLoopUtilization().utilization;
    },
  };
};
