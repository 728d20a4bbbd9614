import { getHeapStatistics } from 'node:v8';
import type { Clock } from '../../base/clock.ts';
import { batchStep, type FromWorker, type ThreadStart, type ToWorker } from '../messages.ts';
import { ResultWriter } from '../results.ts';
import { slotOf, TaskSlots } from '../slots.ts';
import { Snapshot } from '../snapshot.ts';
import { postError, uncopyable, unpackError } from '../wire-error.ts';
import { isThenable, RunningTask } from './running-task.ts';
import { unwrap } from './worker-context.ts';

const gaugeMs = 1_000;

/** The thread that a runner runs in. */
export interface RunnerPort {
  post(message: FromWorker, transfer: readonly ArrayBuffer[]): void;
  /** Ends the thread, though timers or sockets of the module may be left. */
  close(): void;
  readonly clock: Clock;
}

type Handler = (input: unknown, context: unknown) => unknown;

/** The worker's side of a pool: runs the handlers of one module, on resources of its own. */
export class TaskRunner {
  readonly clock: Clock;
  readonly slots: TaskSlots;
  readonly snapshot: Snapshot<unknown>;
  resource: unknown;
  readonly #start: ThreadStart;
  readonly #port: RunnerPort;
  readonly #results: ResultWriter;
  readonly #waiting: unknown[] = [];
  /** The place of the next waiting task: taking from the front of an array would move the rest. */
  #next = 0;
  readonly #running = new Map<number, RunningTask>();
  #handlers: Handler[] = [];
  #teardown: unknown;
  #gaugedAt = -gaugeMs;
  #isPumping = false;

  constructor(start: ThreadStart, port: RunnerPort) {
    this.#start = start;
    this.#port = port;
    this.clock = port.clock;
    this.slots = new TaskSlots(start.slots);
    this.#results = new ResultWriter(start.results, () => this.post(undefined));
    this.snapshot = new Snapshot<unknown>(undefined, { release: () => this.#noteVersion() });
    void this.#setUp(start);
  }

  post(message: FromWorker, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.post(message, transfer);
  }

  receive(message: ToWorker): void {
    if (!('type' in message)) {
      for (const item of message) this.#waiting.push(item);
      this.#pump();
    } else if (message.type === 'snapshot') {
      this.snapshot.publish(message.value, message.version);
    } else if (message.type === 'abort') {
      this.#running.get(message.ticket)?.abort(unpackError(message.reason));
    } else if (message.type === 'credit') {
      this.#running.get(message.ticket)?.credit(message.chunks);
    } else {
      void this.#close();
    }
  }

  ended(task: RunningTask): void {
    this.#running.delete(task.ticket);
    this.#pump();
  }

  /** Tells the pool how a task ended: through shared memory if that is enough, else by message. */
  report(task: RunningTask, result: unknown): void {
    const { ticket, startedAt, isStream } = task;
    const now = this.clock.now();
    const durationMs = now - startedAt;
    if (!isStream && this.#results.write(slotOf(ticket), result, durationMs)) {
      const left = (this.#waiting.length - this.#next) / batchStep;
      this.#results.tell(now, this.#isPumping ? left * durationMs : 0);
      return;
    }
    const { value, list } = unwrap(result);
    try {
      this.post([ticket, durationMs, value], list);
    } catch (error) {
      this.reportError(task, uncopyable('result', value, error));
    }
  }

  reportError({ ticket, startedAt }: RunningTask, thrown: unknown): void {
    const durationMs = this.clock.now() - startedAt;
    postError(thrown, (error) => this.post({ type: 'thrown', ticket, error, durationMs }));
  }

  chunk(ticket: number, chunk: unknown): void {
    const { value, list } = unwrap(chunk);
    try {
      this.post({ type: 'chunk', ticket, value }, list);
    } catch (error) {
      throw uncopyable('chunk', value, error);
    }
  }

  async #setUp({ module, version, value, workerData }: ThreadStart): Promise<void> {
    try {
      if (version > 0) this.snapshot.publish(value, version);
      const { setup, teardown, ...rest }: Record<string, unknown> = await import(module);
      const handlers = Object.entries(rest).filter(([, handler]) => typeof handler === 'function');
      this.#handlers = handlers.map(([, handler]) => handler as Handler);
      this.#teardown = teardown;
      if (typeof setup === 'function') {
        this.resource = await setup({ snapshot: value, version, workerData });
      }
      this.#gauge();
      this.post({ type: 'ready', handlers: handlers.map(([name]) => name) });
    } catch (error) {
      this.#fail(error);
      this.#port.close();
    }
  }

  #pump(): void {
    const { concurrency } = this.#start;
    this.#isPumping = true;
    while (this.#next < this.#waiting.length && this.#running.size < concurrency) {
      const at = this.#next;
      this.#next += batchStep;
      const ticket = this.#waiting[at] as number;
      if (this.slots.claim(ticket)) this.#run(ticket, at);
    }
    this.#isPumping = false;
    const now = this.clock.now();
    this.#results.tell(now, 0);
    if (this.#next < this.#waiting.length) return;
    this.#waiting.length = 0;
    this.#next = 0;
    if (now - this.#gaugedAt >= gaugeMs) this.#gauge();
  }

  #run(ticket: number, at: number): void {
    const isStream = this.#waiting[at + 2] as boolean;
    const task = new RunningTask(this, ticket, isStream);
    try {
      const handler = this.#handlers[this.#waiting[at + 1] as number];
      const result = callHandler(handler as Handler, this.#waiting[at + 3], task);
      if (isStream || isThenable(result)) {
        this.#running.set(ticket, task);
        void task.settle(result);
      } else {
        task[Symbol.dispose]();
        this.report(task, result);
      }
    } catch (error) {
      task[Symbol.dispose]();
      this.reportError(task, error);
    }
  }

  #gauge(): void {
    const { used_heap_size, external_memory } = getHeapStatistics();
    this.slots.heapBytes = used_heap_size + external_memory;
    this.#gaugedAt = this.clock.now();
  }

  #noteVersion(): void {
    this.slots.version = this.snapshot.stats.held[0]?.version ?? 0;
  }

  async #close(): Promise<void> {
    try {
      if (typeof this.#teardown === 'function') await this.#teardown(this.resource);
    } catch (error) {
      this.#fail(error);
    }
    this.#port.close();
  }

  #fail(error: unknown): void {
    postError(error, (packed) => this.post({ type: 'failed', error: packed }));
  }
}

/**
 * Calls the user's function. V8 would copy a hot one into its caller, where a loop of 1 ms took
 * 12 % longer (2026-11); it does not do so where it has seen several functions.
 */
function callHandler(handler: Handler, input: unknown, task: RunningTask): unknown {
  return handler(input, task);
}

for (let i = 0; i < 1_000; i += 1) {
  const never = undefined as never;
  callHandler(i % 2 === 0 ? () => 0 : () => 1, never, never);
}
