import { AsyncLocalStorage } from 'node:async_hooks';
import { untilAborted } from '../base/abort.ts';
import { check, misuse } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { DiskSpace } from '../base/disk-space.ts';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { jsonText } from '../base/json.ts';
import {
  anything,
  callback,
  clockRule,
  type Filled,
  integer,
  number,
  oneOf,
  or,
  settle,
  word,
} from '../base/options.ts';
import { type CloseOptions, Closing, type Part } from '../base/part.ts';
import { type Random, systemRandom } from '../base/random.ts';
import type { RunOptions } from '../base/task.ts';
import { Batch, type BatchEntry, type BatchGroup } from '../wait/batch.ts';
import { mayGrant, nextTurn } from '../wait/turn-budget.ts';
import { DocumentFile, type DocumentVersion, documentTarget } from './document-file.ts';
import { FileLock } from './file-lock.ts';

export interface DocumentOptions<T> {
  /** Path of the file; links are followed. Only its owner can read a new file. */
  readonly path: string;
  /** Value while there is no file: any value that JSON can represent exactly. */
  readonly initial: T;
  /** Name of the part in stats and messages. @default 'document' */
  readonly name?: string | undefined;
  /**
   * Treatment of a file that is not JSON: every call rejects (`refuse`), or the file is set aside
   * as `<path>.corrupt-<n>`, with its reason beside it (`initial`). @default 'refuse'
   */
  readonly onCorrupt?: 'refuse' | 'initial' | undefined;
  /**
   * Size of the file at most, in bytes, from 1. Each transaction reads and writes all of it as JSON
   * on the event loop: 3 ms for the default, 0.6 ms for a quarter of it. @default 262_144
   */
  readonly bytesMax?: number | undefined;
  /** Transactions that may wait; one more is refused. An integer from 0. @default 10_000 */
  readonly queueMax?: number | undefined;
  /** The longest time of a transaction, with its waiting, in ms, from 0. @default 10_000 */
  readonly deadlineMs?: number | undefined;
  /** Source of time. @default systemClock */
  readonly clock?: Clock | undefined;
  /** Source of chance. @default systemRandom */
  readonly random?: Random | undefined;
}

export interface DocumentStats {
  readonly kind: 'document';
  readonly waiting: number;
  /** Transactions that were acknowledged. */
  readonly transactions: number;
  /** Writes of the file, each for all transactions that waited. */
  readonly writes: number;
  /** True from a write that failed because the disk is full until a write succeeds. */
  readonly full: boolean;
}

/** Changes the draft, or returns a new value. Left out if the caller's signal has aborted. */
export type Change<T> = (draft: T, signal: AbortSignal) => T | undefined | Promise<T | undefined>;

/** The change that runs in this async context, so that a nested transaction is noticed. */
const changing = new AsyncLocalStorage<{ readonly path: string; isRunning: boolean }>();

/**
 * One JSON value in one file, which many processes may use at once. Callers get copies. An
 * acknowledged transaction survives a power cut. Waiting transactions are applied one after the
 * other and written together; one that throws is left out. Each change runs in the
 * AsyncLocalStorage context of its caller.
 */
export class Document<T> implements Part, AsyncDisposable {
  readonly name: string;
  readonly #file: DocumentFile;
  readonly #lock: FileLock;
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #setsAside: boolean;
  readonly #batch: Batch<Change<T>, T>;
  readonly #closing: Closing;
  readonly #space: DiskSpace;
  #transactions = 0;
  #writes = 0;
  #loading: Promise<DocumentVersion> | undefined;
  #loadingNext: Promise<DocumentVersion> | undefined;

  /** Opens the document; rejects with `DOCUMENT_CORRUPT` if the file is not JSON. */
  static async open<T>(options: DocumentOptions<T>): Promise<Document<T>> {
    const settled = settle('Document', options, {
      path: word,
      initial: anything,
      name: or(word, 'document'),
      onCorrupt: or(oneOf('refuse', 'initial'), 'refuse'),
      bytesMax: or(integer(1), 262_144),
      queueMax: or(integer(0), 10_000),
      deadlineMs: or(number(0), 10_000),
      clock: or(clockRule, systemClock),
      random: or(callback, systemRandom),
    });
    const initial = jsonText(options.initial);
    const path = await documentTarget(settled.path);
    const document = new Document<T>(new DocumentFile(path, initial, settled.bytesMax), settled);
    try {
      await document.read();
      return document;
    } catch (error) {
      await document.close();
      throw error;
    }
  }

  private constructor(file: DocumentFile, options: Filled<DocumentOptions<T>>) {
    const { name, bytesMax, queueMax, deadlineMs, clock, random, onCorrupt } = options;
    this.name = name;
    this.#file = file;
    this.#clock = clock;
    this.#bytesMax = bytesMax;
    this.#setsAside = onCorrupt === 'initial';
    this.#lock = new FileLock({ path: `${file.path}.lock`, deadlineMs: Infinity, clock, random });
    this.#batch = new Batch({
      call: async (group) => {
        try {
          await this.#group(group);
        } catch (error) {
          this.#space.failed(error);
          throw error;
        }
      },
      groupMax: 10_000,
      queueMax,
      deadlineMs,
      full: (waiting) => {
        const message = `${waiting} transactions wait for ${file.path} already`;
        return new SpillwayError('DOCUMENT_FULL', message);
      },
      clock,
    });
    this.#space = new DiskSpace(file.path, clock);
    this.#closing = new Closing(clock, (limit) => this.#close(limit));
  }

  /** False while the disk is full, and once the document is closing. */
  get ready(): boolean {
    return !this.#closing.hasBegun && this.fault === undefined;
  }

  get fault(): string | undefined {
    return this.#space.fault;
  }

  get stats(): DocumentStats {
    const { waiting } = this.#batch.stats;
    const transactions = this.#transactions;
    const full = this.fault !== undefined;
    return { kind: 'document', waiting, transactions, writes: this.#writes, full };
  }

  /** Gives a copy of the newest value, whichever process has written it. */
  async read({ signal }: RunOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    this.#checkOpen();
    const loaded = this.#load();
    try {
      const { text } = await untilAborted(loaded, signal);
      return JSON.parse(text);
    } catch (error) {
      if (!this.#setsAside || field(error, 'code') !== 'DOCUMENT_CORRUPT') throw error;
      return await this.transaction(() => {}, { signal });
    }
  }

  /**
   * Changes a copy of the value, and resolves with it once it is durable in the file. The change
   * may be async, but the document is locked meanwhile, for other processes too, so it must not
   * wait for another transaction of the same document. If the caller aborts after the change was
   * made, its outcome is unknown; before that, nothing was changed.
   */
  async transaction(change: Change<T>, { signal }: RunOptions = {}): Promise<T> {
    signal?.throwIfAborted();
    check(typeof change === 'function', 'change', 'a function', change);
    this.#checkOpen();
    const outer = changing.getStore();
    if (outer?.isRunning && outer.path === this.#file.path) {
      const rule = 'outside of every change of the same document: it would wait for itself';
      throw misuse('Document: transaction', rule, this.#file.path);
    }
    return await this.#batch.add(change, { signal });
  }

  /** Refuses new transactions and finishes those that wait, as far as the time allows. */
  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(limit: AbortSignal): Promise<void> {
    await untilAborted(this.#batch.idle(), limit).catch(() => {
      this.#batch.refuseAll(this.#closedError());
    });
    await Promise.allSettled([this.#loading, this.#loadingNext]);
    await this.#file.close();
    await this.#space.idle();
    this.#lock[Symbol.dispose]();
  }

  #checkOpen(): void {
    if (this.#closing.hasBegun) throw this.#closedError();
  }

  #closedError(): SpillwayError {
    return new SpillwayError('DOCUMENT_CLOSED', `${this.#file.path} is closed`);
  }

  /** Loads the file. Calls that arrive during a read share the next read, which sees more. */
  #load(): Promise<DocumentVersion> {
    this.#loadingNext ??= Promise.allSettled([this.#loading]).then(() => {
      this.#loading = this.#file.load();
      this.#loadingNext = undefined;
      return this.#loading;
    });
    return this.#loadingNext;
  }

  /** Takes the lock once for all transactions that wait, applies their changes, writes once. */
  async #group(group: BatchGroup<Change<T>, T>): Promise<void> {
    using held = await this.#lock.acquire({ signal: group.signal });
    const former = await this.#loadOrSetAside();
    const changed: { readonly entry: BatchEntry<Change<T>, T>; readonly value: T }[] = [];
    let text = former.text;
    for (let left = this.#batch.stats.waiting; left > 0; left -= 1) {
      const [entry] = group.take(1);
      if (entry === undefined) break;
      entry.mayBeDone = false;
      const { signal } = entry;
      if (!mayGrant(this.#clock.now())) await new Promise<void>(nextTurn);
      try {
        const applied = await this.#apply(entry, signal, text);
        text = applied.text;
        entry.mayBeDone = true;
        changed.push({ entry, value: applied.value });
      } catch (error) {
        entry.refuse(error);
      }
    }
    if (text !== former.text) {
      // Once the lock is lost, another process may have written the file.
      await this.#file.replace(text, former.stats, () => held.check());
      this.#writes += 1;
      this.#space.succeeded();
    }
    this.#transactions += changed.length;
    for (const { entry, value } of changed) entry.grant(value);
  }

  async #loadOrSetAside(): Promise<DocumentVersion> {
    try {
      return await this.#load();
    } catch (error) {
      if (!this.#setsAside || field(error, 'code') !== 'DOCUMENT_CORRUPT') throw error;
      await this.#file.setAside(String(field(error, 'message')));
      return await this.#load();
    }
  }

  /** Applies one change. Only JSON text is kept between two changes, so no caller can alter it. */
  async #apply(
    entry: BatchEntry<Change<T>, T>,
    signal: AbortSignal,
    before: string,
  ): Promise<{ readonly text: string; readonly value: T }> {
    signal.throwIfAborted();
    const draft: T = JSON.parse(before);
    const frame = { path: this.#file.path, isRunning: true };
    try {
      const outcome = entry.inContext(() => changing.run(frame, entry.item, draft, signal));
      const given = outcome instanceof Promise ? await untilAborted(outcome, signal) : outcome;
      const value = given === undefined ? draft : given;
      const text = jsonText(value);
      const bytes = Buffer.byteLength(text);
      if (bytes <= this.#bytesMax) return { text, value };
      const { path } = this.#file;
      const message = `${path} would have ${bytes} bytes, more than its ${this.#bytesMax}`;
      throw new SpillwayError('DOCUMENT_TOO_LARGE', message);
    } finally {
      frame.isRunning = false;
    }
  }
}
