import { runUntilAborted } from '../base/abort.ts';
import { checkInteger } from '../base/check.ts';
import type { Clock } from '../base/clock.ts';
import { msLeft } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import type { Runner, RunOptions, Task } from '../base/task.ts';
import { tellRefusal } from '../base/tell.ts';
import { Ring } from '../wait/ring.ts';
import { rejectSoon, Waiter } from '../wait/wait-queue.ts';

class Taker extends Waiter<void> {
  readonly n: number;

  constructor(n: number, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.n = n;
  }
}

export interface TokenQueueOptions {
  readonly burst: number;
  readonly queueMax: number;
  readonly clock: Clock;
}

/** Callers that take tokens, first come, first served, wherever the tokens come from. */
export abstract class TokenQueue implements Runner {
  #options: TokenQueueOptions;
  readonly #takers = new Ring<Taker>();
  #timer: Disposable | undefined = undefined;
  #isPaused = false;
  /** Tokens that all callers in the queue want together. */
  protected wanted = 0;
  protected taken = 0;
  protected refused = 0;

  protected constructor(options: TokenQueueOptions) {
    this.#options = options;
  }

  /** Takes `n` tokens if they are there. */
  protected abstract spend(n: number): boolean;
  /** Milliseconds until `n` tokens are there, if nobody else takes any. */
  protected abstract msUntil(n: number): number;
  /** Milliseconds until the first caller in the queue, which wants `n`, can be served. */
  protected msUntilServed(n: number): number {
    return this.msUntil(n);
  }

  protected get waiting(): number {
    return this.#takers.size;
  }

  /** Yields the number of tokens that each waiting caller wants, in order. */
  protected *wants(): Generator<number> {
    for (const { n } of this.#takers) yield n;
  }

  /** Resolves when `n` tokens are there and all earlier callers have theirs. */
  async take(n = 1, { signal }: RunOptions = {}): Promise<void> {
    signal?.throwIfAborted();
    if (!this.tryTake(n)) return this.#wait(n, signal);
  }

  /** Takes `n` tokens, at most the burst, if they are there and nobody waits for tokens. */
  tryTake(n = 1): boolean {
    checkInteger('n', n, 1, this.#options.burst);
    return this.#takers.size === 0 && this.#spend(n);
  }

  /** Takes a token, waiting for it if need be, and runs the task. */
  async run<T>(task: Task<T>, options: RunOptions = {}): Promise<T> {
    await this.take(1, options);
    return await runUntilAborted(task, options.signal);
  }

  /** Gives no tokens until `resume`; callers wait, up to `queueMax`. */
  pause(): void {
    this.#isPaused = true;
    this.#arm();
  }

  /** Undoes `pause`; tokens have accrued meanwhile, up to the burst. */
  resume(): void {
    this.#isPaused = false;
    this.serve();
  }

  /** Refuses every waiting caller, with `CLEARED`. */
  clear(): void {
    this.refuseAll(new SpillwayError('CLEARED', 'the queue for tokens was cleared'));
  }

  /** Waits for `n` tokens; refuses at once what the queue or the caller's deadline cannot hold. */
  #wait(n: number, signal: AbortSignal | undefined): Promise<void> {
    const { queueMax } = this.#options;
    // The timer may be late: callers whose tokens have accrued by now leave the queue first.
    if (this.#takers.size >= queueMax) this.serve();
    const retryAfterMs = this.msUntil(this.wanted + n);
    if (this.#takers.size >= queueMax || retryAfterMs > msLeft(signal)) {
      this.refused += 1;
      const message = `${this.#takers.size} waiting for tokens`;
      const error = new SpillwayError('BUCKET_FULL', message, { retryAfterMs });
      return rejectSoon(tellRefusal(this, error));
    }
    const taker: Taker = new Taker(n, signal, () => {
      this.wanted -= n;
      // The next caller may want less than the one that left, so its tokens may be there.
      this.serve();
    });
    this.#takers.push(taker);
    this.wanted += n;
    if (this.#takers.size === 1) this.#arm();
    return taker.promise;
  }

  /** Changes the options, and serves the callers that the new ones let pass. */
  protected change(options: TokenQueueOptions): void {
    this.#options = options;
    this.serve();
  }

  /** Serves waiting callers in order, as long as there are tokens. */
  protected serve(): void {
    for (let { first } = this.#takers; first && this.#spend(first.n); { first } = this.#takers) {
      this.#takers.remove(first);
      this.wanted -= first.n;
      first.grant();
    }
    this.#arm();
  }

  protected refuseAll(reason: unknown): void {
    this.wanted = 0;
    for (let taker = this.#takers.shift(); taker; taker = this.#takers.shift()) {
      taker.refuse(reason);
    }
    this.#arm();
  }

  #spend(n: number): boolean {
    if (this.#isPaused || !this.spend(n)) return false;
    this.taken += n;
    return true;
  }

  /** One timer, for the oldest: nobody is served before it. */
  #arm(): void {
    this.#timer?.[Symbol.dispose]();
    const { first } = this.#takers;
    const ms = first === undefined || this.#isPaused ? Infinity : this.msUntilServed(first.n);
    this.#timer = this.#options.clock.after(ms, () => this.serve());
  }
}
