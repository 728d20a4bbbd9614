import { getHeapStatistics } from 'node:v8';
import { misuse } from '../../base/check.ts';
import type { Clock } from '../../base/clock.ts';
import { Snapshot } from '../snapshot.ts';
import {
  type FromWorker,
  postError,
  SharedSlots,
  type ThreadStart,
  type ToWorker,
  unpackError,
} from '../wire.ts';
import { isThenable, PoolHostTask } from './task.ts';
import { Transfer } from './worker-context.ts';

const gaugeMs = 1_000;
/**
 * A worker with more to do wakes the pool only this often, in milliseconds: waking it for each of
 * many short tasks makes batches crumble. What ends before a long task is found by `PoolPoll`.
 */
const silenceMsMax = 0.25;

/** What the worker's side of a pool needs of the thread it runs in. */
export interface HostPort {
  post(message: FromWorker, transfer: readonly ArrayBuffer[]): void;
  /** Ends the thread, though timers or sockets of the module may be left. */
  close(): void;
  readonly clock: Clock;
}

type Handler = (input: unknown, context: unknown) => unknown;

/** The worker's side of a pool: runs the handlers of one module, on resources of its own. */
export class PoolHost {
  readonly clock: Clock;
  readonly slots: SharedSlots;
  resource: unknown;
  readonly snapshot: Snapshot<unknown>;
  readonly #start: ThreadStart;
  readonly #port: HostPort;
  readonly #waiting: unknown[] = [];
  /** Where the next waiting task begins: taking from the front of an array would move the rest. */
  #next = 0;
  readonly #running = new Map<number, PoolHostTask>();
  #handlers: Handler[] = [];
  #teardown: unknown;
  #gaugedAt = -gaugeMs;
  /** True while it goes through tasks without a pause. */
  #isPumping = false;
  /** There are results that the pool has not been told of. */
  #isSilent = false;
  #wokeAt = -Infinity;

  constructor(start: ThreadStart, port: HostPort) {
    this.#start = start;
    this.#port = port;
    this.clock = port.clock;
    this.slots = new SharedSlots(start.buffer);
    const release = (_: unknown, version: number) => this.post({ type: 'released', version });
    this.snapshot = new Snapshot<unknown>(undefined, { release });
  }

  post(message: FromWorker, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.post(message, transfer);
  }

  receive(message: ToWorker): void {
    if (!('type' in message)) {
      for (const item of message) this.#waiting.push(item);
      this.#pump();
    } else if (message.type === 'start') {
      void this.#setUp(message.version, message.value);
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

  /** A task that did not end at once is over; the next may begin. */
  ended(task: PoolHostTask): void {
    this.#running.delete(task.ticket);
    this.#pump();
  }

  /** Tells the pool how a task ended: through shared memory if that is enough, else by message. */
  report(ticket: number, result: unknown, startedAt: number, isStream = false): void {
    const now = this.clock.now();
    const durationMs = now - startedAt;
    if (!isStream && this.slots.end(ticket, result, durationMs)) {
      this.#isSilent = true;
      if (!this.#isPumping || now - this.#wokeAt >= silenceMsMax) this.#wake(now);
      return;
    }
    const { value, list } = result instanceof Transfer ? result : { value: result, list: [] };
    try {
      this.post({ type: 'result', ticket, value, durationMs }, list);
    } catch (error) {
      this.reportError(ticket, uncopyable('result', value, error), startedAt);
    }
  }

  chunk(ticket: number, chunk: unknown): void {
    const { value, list } = chunk instanceof Transfer ? chunk : { value: chunk, list: [] };
    try {
      this.post({ type: 'chunk', ticket, value }, list);
    } catch (error) {
      throw uncopyable('chunk', value, error);
    }
  }

  reportError(ticket: number, thrown: unknown, startedAt: number): void {
    const durationMs = this.clock.now() - startedAt;
    postError(thrown, (error) => this.post({ type: 'error', ticket, error, durationMs }));
  }

  async #setUp(version: number, value: unknown): Promise<void> {
    try {
      if (version > 0) this.snapshot.publish(value, version);
      const module: Record<string, unknown> = await import(this.#start.module);
      const { setup, teardown, ...rest } = module;
      const handlers = Object.entries(rest).filter(([, handler]) => typeof handler === 'function');
      this.#handlers = handlers.map(([, handler]) => handler as Handler);
      this.#teardown = teardown;
      if (typeof setup === 'function') this.resource = await setup({ snapshot: value, version });
      this.#gauge();
      this.post({ type: 'ready', handlers: handlers.map(([name]) => name) });
    } catch (error) {
      this.#fail(error);
      this.#port.close();
    }
  }

  /** Tells the pool that there are results in shared memory, unless it knows. */
  #wake(now: number): void {
    this.#isSilent = false;
    this.#wokeAt = now;
    if (this.slots.mustWake()) this.post(undefined);
  }

  #pump(): void {
    const { concurrency } = this.#start;
    this.#isPumping = true;
    while (this.#next < this.#waiting.length && this.#running.size < concurrency) {
      const ticket = this.#waiting[this.#next] as number;
      const handler = this.#waiting[this.#next + 1] as number;
      const input = this.#waiting[this.#next + 2];
      this.#next += 3;
      if (this.slots.claim(ticket)) this.#run(ticket, handler, input);
    }
    this.#isPumping = false;
    if (this.#isSilent) this.#wake(this.clock.now());
    if (this.#next < this.#waiting.length) return;
    this.#waiting.length = 0;
    this.#next = 0;
    if (this.clock.now() - this.#gaugedAt >= gaugeMs) this.#gauge();
  }

  #run(ticket: number, number: number, input: unknown): void {
    const task = new PoolHostTask(this, ticket);
    const isStream = number < 0;
    try {
      const result = this.#handlers[isStream ? -1 - number : number]?.(input, task);
      if (isStream || isThenable(result)) {
        this.#running.set(ticket, task);
        void task.settle(result, isStream);
      } else {
        task[Symbol.dispose]();
        this.report(ticket, result, task.startedAt);
      }
    } catch (error) {
      task[Symbol.dispose]();
      this.reportError(ticket, error, task.startedAt);
    }
  }

  #gauge(): void {
    const { used_heap_size, external_memory } = getHeapStatistics();
    this.slots.heapBytes = used_heap_size + external_memory;
    this.#gaugedAt = this.clock.now();
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

function uncopyable(name: string, value: unknown, cause: unknown): Error {
  return misuse(name, 'a value that can be copied', value, cause);
}
