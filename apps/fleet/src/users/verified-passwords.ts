import { createHmac, randomBytes } from 'node:crypto';
import { type Clock, Lane, type LaneStats, untilAborted } from 'spillway';
import type { Access } from '../protocol/read-request.ts';
import { impossibleHash, matchesPassword } from './password.ts';

/** Whoever may have to wait, and no longer than its signal says. */
export interface Waiter {
  readonly signal: AbortSignal;
}

export function during<T>(work: Promise<T>, waiter: Waiter | undefined): Promise<T> {
  return waiter === undefined ? work : untilAborted(work, waiter.signal);
}

/** Right passwords that are remembered, the longest unused forgotten first. */
const rememberedMax = 50_000;
/** Threads of Node that may hash at once: it has four, and files need some too. */
const hashesMax = 2;
const waitingMax = 1_000;
const deadlineMs = 20_000;
/** A longer one is wrong without a look. */
const passwordMax = 1_024;

/**
 * Checks passwords. The right ones are remembered, by a digest under a key that dies with the
 * process and together with the hash they matched: so a new password makes the old one wrong, and
 * what a worker sends with each request is hashed slowly only once.
 */
export class VerifiedPasswords {
  readonly #key = randomBytes(32);
  readonly #hashes = new Map<string, string>();
  /** Checks under way, so that a thousand workers of one user cost one hash. */
  readonly #running = new Map<string, Promise<boolean>>();
  readonly #lane: Lane;
  #hashed = 0;

  constructor({ clock }: { readonly clock: Clock }) {
    const name = 'passwords';
    const limits = { limit: hashesMax, queueMax: waitingMax, deadlineMs };
    this.#lane = new Lane({ name, ...limits, clock });
  }

  get stats(): { readonly remembered: number; readonly hashed: number; readonly lane: LaneStats } {
    return { remembered: this.#hashes.size, hashed: this.#hashed, lane: this.#lane.stats };
  }

  /** An unknown user, who has no hash, costs as much as a wrong password. */
  async check(
    { username, password }: Access,
    hash: string = impossibleHash,
    waiter?: Waiter,
  ): Promise<boolean> {
    if (password.length > passwordMax) return false;
    const digest = this.#digest(username, password);
    if (this.#hashes.get(digest) === hash) {
      this.#remember(digest, hash);
      return true;
    }
    const name = `${digest} ${hash}`;
    const running = this.#running.get(name) ?? this.#start(name, password, hash);
    const isRight = await during(running, waiter);
    if (isRight) this.#remember(digest, hash);
    return isRight;
  }

  #start(name: string, password: string, hash: string): Promise<boolean> {
    const running = this.#lane.run(() => {
      this.#hashed += 1;
      return matchesPassword(password, hash);
    });
    this.#running.set(name, running);
    const forget = () => this.#running.delete(name);
    running.then(forget, forget);
    return running;
  }

  /** Equal digests need no constant time: without the key nobody can choose one. */
  #digest(username: string, password: string): string {
    const text = JSON.stringify([username, password]);
    return createHmac('sha256', this.#key).update(text).digest('base64');
  }

  #remember(digest: string, hash: string): void {
    this.#hashes.delete(digest);
    const [oldest] = this.#hashes.keys();
    if (this.#hashes.size >= rememberedMax && oldest !== undefined) this.#hashes.delete(oldest);
    this.#hashes.set(digest, hash);
  }
}
