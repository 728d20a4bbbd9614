import { checkInteger } from '../base/check.ts';
import { msLeft } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { Ring } from '../wait/ring.ts';
import { rejectSoon, Waiter } from '../wait/wait-queue.ts';

class Taker extends Waiter<void> {
  readonly n: number;

  constructor(n: number, signal: AbortSignal | undefined, left: () => void) {
    super(signal, left);
    this.n = n;
  }
}

/** The tokens that a queue gives out. */
export interface TokenSource {
  /** Takes `n` tokens if they are there. */
  spend(n: number): boolean;
  /** Milliseconds until `n` tokens are there, if nobody else takes any. */
  msUntil(n: number): number;
  /** Sees to it that `serve` is called when `n` tokens are there; ends that when `n` is 0. */
  arm(n: number): void;
}

/** The callers of a bucket: first come, first served, whatever the bucket's tokens come from. */
export class TokenQueue {
  readonly #source: TokenSource;
  readonly #queueMax: number;
  readonly #takers = new Ring<Taker>();
  /** Tokens that those in the queue wait for. */
  wanted = 0;
  taken = 0;
  refused = 0;

  constructor(source: TokenSource, queueMax: number) {
    checkInteger('queueMax', queueMax, 0);
    this.#source = source;
    this.#queueMax = queueMax;
  }

  get size(): number {
    return this.#takers.size;
  }

  /** How many tokens each of those who wait wants, in order. */
  *wants(): Generator<number> {
    for (const { n } of this.#takers) yield n;
  }

  tryTake(n: number): boolean {
    return this.#takers.size === 0 && this.#spend(n);
  }

  /** Waits for `n` tokens; refuses at once what the queue or the caller's deadline cannot hold. */
  wait(n: number, signal: AbortSignal | undefined): Promise<void> {
    // Those whose timer is late have their tokens already: their places are free.
    if (this.#takers.size >= this.#queueMax) this.serve();
    const retryAfterMs = this.#source.msUntil(this.wanted + n);
    if (this.#takers.size >= this.#queueMax || retryAfterMs > msLeft(signal)) {
      this.refused += 1;
      const message = `${this.#takers.size} waiting for tokens`;
      return rejectSoon(new SpillwayError('BUCKET_FULL', message, { retryAfterMs }));
    }
    const taker: Taker = new Taker(n, signal, () => this.#leave(taker));
    this.#takers.push(taker);
    this.wanted += n;
    if (this.#takers.size === 1) this.#source.arm(n);
    return taker.promise;
  }

  /** Gives the oldest their tokens, as long as there are any. */
  readonly serve = (): void => {
    for (let { first } = this.#takers; first && this.#spend(first.n); { first } = this.#takers) {
      this.#takers.remove(first);
      this.wanted -= first.n;
      first.grant();
    }
    this.#source.arm(this.#takers.first?.n ?? 0);
  };

  refuseAll(reason: unknown): void {
    this.wanted = 0;
    for (let taker = this.#takers.shift(); taker; taker = this.#takers.shift()) {
      taker.refuse(reason);
    }
    this.#source.arm(0);
  }

  #spend(n: number): boolean {
    if (!this.#source.spend(n)) return false;
    this.taken += n;
    return true;
  }

  #leave(taker: Taker): void {
    this.wanted -= taker.n;
    // The next may want less than the one that left, so its tokens may be there already.
    this.serve();
  }
}
