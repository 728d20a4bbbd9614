import { rm, writeFile } from 'node:fs/promises';
import { threadId } from 'node:worker_threads';
import type { Clock } from './clock.ts';
import { field } from './failure.ts';

/** The codes of a write that failed since the disk is full. */
const codes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'DATABASE_FULL']);
const trialMs = 1_000;
const trialBytes = 65_536;
let trials = 0;

/**
 * Remembers that a write failed since the disk is full, until one succeeds. Reading `fault` also
 * starts a trial write, once a second: a service that is not ready may get no other writes.
 */
export class DiskSpace {
  readonly #path: string;
  readonly #clock: Clock;
  #fault: string | undefined = undefined;
  #triedAt = -Infinity;
  #trial: Promise<void> | undefined = undefined;

  /** Trial files are written beside this path. */
  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /** The reason why nothing can be written; undefined while there is space. */
  get fault(): string | undefined {
    const isDue = this.#clock.now() - this.#triedAt >= trialMs;
    if (this.#fault !== undefined && isDue) this.#trial ??= this.#try(this.#fault);
    return this.#fault;
  }

  /** Notes an error if it is that of a full disk. */
  failed(error: unknown): void {
    const found = [error, field(error, 'cause')].find((each) => codes.has(field(each, 'code')));
    if (found === undefined) return;
    this.#fault = `the disk of ${this.#path} is full: ${String(field(found, 'message'))}`;
    this.#triedAt = this.#clock.now();
  }

  succeeded(): void {
    this.#fault = undefined;
  }

  /** Resolves when no trial is under way and its file is gone. */
  async idle(): Promise<void> {
    await this.#trial;
  }

  async #try(fault: string): Promise<void> {
    trials += 1;
    const path = `${this.#path}.trial-${process.pid}-${threadId}-${trials}`;
    try {
      await writeFile(path, new Uint8Array(trialBytes), { mode: 0o600, flush: true });
      // A write may have failed in the meantime.
      if (this.#fault === fault) this.#fault = undefined;
    } catch {
      // It is still full.
    }
    await rm(path, { force: true }).catch(() => {});
    this.#triedAt = this.#clock.now();
    this.#trial = undefined;
  }
}
