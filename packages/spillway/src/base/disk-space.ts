import { rm, writeFile } from 'node:fs/promises';
import { threadId } from 'node:worker_threads';
import type { Clock } from './clock.ts';
import { field } from './failure.ts';

/** The codes of a write that failed for want of space. */
const codes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'DATABASE_FULL']);
const trialMs = 1_000;
const trialBytes = 65_536;
let trials = 0;

/**
 * The memory of a write that failed since the disk is full, until one succeeds. Whoever asks for
 * it meanwhile also starts a trial, once a second: a service that is not ready may get no writes.
 */
export class DiskSpace {
  readonly #path: string;
  readonly #clock: Clock;
  #fault: string | undefined = undefined;
  #triedAt = -Infinity;
  #trial: Promise<void> | undefined = undefined;

  /** The trials are files beside the one at this path. */
  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /** The reason for which nothing can be written; undefined while there is space. */
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

  /** Resolves when no trial is under way any more; its file is gone then. */
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
