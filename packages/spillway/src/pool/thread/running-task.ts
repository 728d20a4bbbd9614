import type { View } from '../snapshot.ts';
import type { TaskRunner } from './runner.ts';
import type { WorkerContext } from './worker-context.ts';

/** The number of chunks that may be on their way before the reader has asked for more. */
export const streamWindow = 16;

/** A task inside a worker, and the context that its handler is given. */
export class RunningTask implements WorkerContext, Disposable {
  readonly ticket: number;
  readonly isStream: boolean;
  readonly startedAt: number;
  readonly #runner: TaskRunner;
  readonly #view: View<unknown>;
  #controller: AbortController | undefined;
  #credit = streamWindow;
  #wake: (() => void) | undefined;

  constructor(runner: TaskRunner, ticket: number, isStream: boolean) {
    this.#runner = runner;
    this.ticket = ticket;
    this.isStream = isStream;
    this.startedAt = runner.clock.now();
    this.#view = runner.snapshot.acquire();
  }

  get resource(): unknown {
    return this.#runner.resource;
  }

  get snapshot(): unknown {
    return this.#view.value;
  }

  get version(): number {
    return this.#view.version;
  }

  get aborted(): boolean {
    return this.#runner.slots.isAborted(this.ticket);
  }

  /** Made when first asked for: most tasks never look. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    this.#controller ??= new AbortController();
    this.#controller.abort(reason);
    this.#wake?.();
  }

  credit(chunks: number): void {
    this.#credit += chunks;
    this.#wake?.();
  }

  /** Waits for the end of what a handler has begun, and reports it. */
  async settle(result: unknown): Promise<void> {
    const runner = this.#runner;
    try {
      // A stream begins here and now: the next task must not begin before it.
      const value = this.isStream ? await this.#stream(result) : await result;
      this[Symbol.dispose]();
      runner.report(this, value);
    } catch (error) {
      this[Symbol.dispose]();
      runner.reportError(this, error);
    }
    runner.ended(this);
  }

  async #stream(result: unknown): Promise<void> {
    const chunks = isThenable(result) ? await result : result;
    for await (const chunk of chunks as AsyncIterable<unknown>) {
      this.#runner.chunk(this.ticket, chunk);
      this.#credit -= 1;
      while (this.#credit <= 0 && !this.#controller?.signal.aborted) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
      this.#controller?.signal.throwIfAborted();
    }
  }

  [Symbol.dispose](): void {
    this.#view[Symbol.dispose]();
  }
}

/** True when the result is still to come. */
export function isThenable(result: unknown): result is PromiseLike<unknown> {
  return typeof (result as { then?: unknown } | undefined)?.then === 'function';
}
