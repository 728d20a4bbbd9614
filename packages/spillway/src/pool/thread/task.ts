import type { View } from '../snapshot.ts';
import type { PoolHost } from './host.ts';
import type { WorkerContext } from './worker-context.ts';

/** How many chunks of a stream may be on their way before the reader has asked for more. */
export const streamWindow = 16;

/** A task inside a worker, and what its handler sees of it. */
export class PoolHostTask implements WorkerContext, Disposable {
  readonly ticket: number;
  readonly startedAt: number;
  readonly #host: PoolHost;
  readonly #view: View<unknown>;
  #controller: AbortController | undefined;
  #credit = streamWindow;
  #wake: (() => void) | undefined;

  constructor(host: PoolHost, ticket: number) {
    this.#host = host;
    this.ticket = ticket;
    this.startedAt = host.clock.now();
    this.#view = host.snapshot.acquire();
  }

  get resource(): unknown {
    return this.#host.resource;
  }

  get snapshot(): unknown {
    return this.#view.value;
  }

  get version(): number {
    return this.#view.version;
  }

  get aborted(): boolean {
    return this.#host.slots.isAborted(this.ticket);
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
  async settle(result: unknown, isStream: boolean): Promise<void> {
    const { ticket, startedAt } = this;
    const host = this.#host;
    try {
      // A stream begins here and now: the next task must not begin before it.
      const value = isStream ? await this.#stream(result) : await result;
      this[Symbol.dispose]();
      host.report(ticket, value, startedAt, isStream);
    } catch (error) {
      this[Symbol.dispose]();
      host.reportError(ticket, error, startedAt);
    }
    host.ended(this);
  }

  async #stream(result: unknown): Promise<void> {
    const chunks = isThenable(result) ? await result : result;
    for await (const chunk of chunks as AsyncIterable<unknown>) {
      this.#host.chunk(this.ticket, chunk);
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

/** Whether the result is still to come. */
export function isThenable(result: unknown): result is PromiseLike<unknown> {
  return typeof (result as { then?: unknown } | undefined)?.then === 'function';
}
