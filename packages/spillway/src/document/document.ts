import { untilAborted } from '../base/abort.ts';
import { check, checkInteger, checkNumber, misuse } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { inDoubt } from '../base/in-doubt.ts';
import type { Random } from '../base/random.ts';
import { Ring } from '../wait/ring.ts';
import { mayGrant, nextTurn } from '../wait/turn.ts';
import { Waiter } from '../wait/wait-queue.ts';
import { DocumentFile, type DocumentVersion, documentTarget } from './document-file.ts';
import { FileLock } from './file-lock.ts';

export interface DocumentOptions<T> {
  /** Its file; links are followed. A new one can be read by its owner only. */
  readonly path: string;
  /** What it holds while there is no file: anything that JSON can hold. */
  readonly initial: T;
  /**
   * A file that is no JSON makes every call reject (`refuse`), or is set aside as
   * `<path>.corrupt-<n>`, with its reason beside it (`initial`). `refuse` by default.
   */
  readonly onCorrupt?: 'refuse' | 'initial' | undefined;
  /**
   * The largest file, in bytes; 262,144 by default. Each transaction reads and writes all of it as
   * JSON on the event loop, which takes about 3 ms for so much and 0.6 ms for a quarter of it.
   */
  readonly bytesMax?: number | undefined;
  /** How many transactions may wait; one more is refused. From 0; 10,000 by default. */
  readonly queueMax?: number | undefined;
  /** How long a transaction may take, waiting included, in ms; 10,000 by default. */
  readonly deadlineMs?: number | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

export interface DocumentStats {
  readonly waiting: number;
  /** Transactions that were acknowledged. */
  readonly transactions: number;
  /** Times the file was written; each for all transactions that waited. */
  readonly writes: number;
}

/** Changes the draft, or gives back what shall take its place; aborted, it is left out. */
export type Change<T> = (draft: T, signal: AbortSignal) => T | undefined | Promise<T | undefined>;

class Transaction<T> extends Waiter<T> {
  readonly change: Change<T>;
  readonly signal: AbortSignal;
  result: T | undefined = undefined;
  /** True once it is a part of what will be written. */
  isApplied = false;

  constructor(change: Change<T>, signal: AbortSignal, left: () => void) {
    super(signal, left);
    this.change = change;
    this.signal = signal;
  }
}

/**
 * One JSON value in one file, which many processes may use at once. All that is given out is a
 * copy. A transaction that was acknowledged survives a power cut; those that wait are done one
 * after the other and written together, and one that throws is left out alone.
 */
export class Document<T> implements AsyncDisposable {
  readonly #file: DocumentFile;
  readonly #lock: FileLock;
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #queueMax: number;
  readonly #deadlineMs: number;
  readonly #setsAside: boolean;
  readonly #queue = new Ring<Transaction<T>>();
  #nobodyWaits = new AbortController();
  #working: Promise<void> | undefined;
  #closed = false;
  #transactions = 0;
  #writes = 0;
  #loading: Promise<DocumentVersion> | undefined;
  #loadingNext: Promise<DocumentVersion> | undefined;

  /** Rejects with `DOCUMENT_CORRUPT` if the file is no JSON, or with what keeps it from opening. */
  static async open<T>(options: DocumentOptions<T>): Promise<Document<T>> {
    const { path, initial, bytesMax = 262_144, queueMax = 10_000, deadlineMs = 10_000 } = options;
    const { onCorrupt = 'refuse' } = options;
    check(typeof path === 'string' && path !== '', 'path', 'the path of a file', path);
    checkInteger('bytesMax', bytesMax, 1);
    checkInteger('queueMax', queueMax, 0);
    checkNumber('deadlineMs', deadlineMs, 0);
    const known = onCorrupt === 'refuse' || onCorrupt === 'initial';
    check(known, 'onCorrupt', "'refuse' or 'initial'", onCorrupt);
    const file = new DocumentFile(await documentTarget(path), encode(initial), bytesMax);
    const settings = { ...options, bytesMax, queueMax, deadlineMs, onCorrupt };
    const document = new Document<T>(file, settings);
    try {
      await document.read();
      return document;
    } catch (error) {
      await document.close();
      throw error;
    }
  }

  private constructor(
    file: DocumentFile,
    options: DocumentOptions<T> & { bytesMax: number; queueMax: number; deadlineMs: number },
  ) {
    const { clock = systemClock, random } = options;
    const path = `${file.path}.lock`;
    this.#file = file;
    this.#lock = new FileLock({ path, waitMsMax: Infinity, clock, random });
    this.#clock = clock;
    this.#bytesMax = options.bytesMax;
    this.#queueMax = options.queueMax;
    this.#deadlineMs = options.deadlineMs;
    this.#setsAside = options.onCorrupt === 'initial';
  }

  get stats(): DocumentStats {
    const [transactions, writes] = [this.#transactions, this.#writes];
    return { waiting: this.#queue.size, transactions, writes };
  }

  /** A copy of the newest value, whichever process wrote it. */
  async read(signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    this.#checkOpen();
    const loaded = this.#load();
    try {
      const { text } = await untilAborted(loaded, signal);
      return JSON.parse(text);
    } catch (error) {
      if (!this.#setsAside || field(error, 'code') !== 'DOCUMENT_CORRUPT') throw error;
      return await this.transaction(() => {}, signal);
    }
  }

  /**
   * Changes a copy of the value, and resolves with it once it is in the file for good. The change
   * may be async, but the document is locked meanwhile, for other processes too. Aborted after the
   * change was made, the outcome is unknown; before that, it is as if it had never been.
   */
  async transaction(change: Change<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    check(typeof change === 'function', 'change', 'a function', change);
    this.#checkOpen();
    if (this.#queue.size >= this.#queueMax) {
      const message = `${this.#queue.size} transactions wait for ${this.#file.path} already`;
      throw new SpillwayError('DOCUMENT_FULL', message);
    }
    using limit = deadline(this.#clock, this.#deadlineMs, signal);
    const transaction = new Transaction<T>(change, limit.signal, this.#left);
    this.#queue.push(transaction);
    this.#working ??= this.#work();
    try {
      return await transaction.promise;
    } catch (error) {
      throw transaction.isApplied && limit.signal.aborted ? inDoubt(error) : error;
    }
  }

  /** Takes nothing more, and finishes what waits. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#working !== undefined) await this.#working;
    await Promise.allSettled([this.#loading, this.#loadingNext]);
    await this.#file.close();
    this.#lock[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #checkOpen(): void {
    if (!this.#closed) return;
    throw new SpillwayError('DOCUMENT_CLOSED', `${this.#file.path} is closed`);
  }

  /** All who ask while the file is being looked at share the next look: theirs must be newer. */
  #load(): Promise<DocumentVersion> {
    this.#loadingNext ??= Promise.allSettled([this.#loading]).then(() => {
      this.#loading = this.#file.load();
      this.#loadingNext = undefined;
      return this.#loading;
    });
    return this.#loadingNext;
  }

  readonly #left = (): void => {
    if (this.#queue.size === 0) this.#nobodyWaits.abort();
  };

  async #work(): Promise<void> {
    while (this.#queue.size > 0) {
      this.#nobodyWaits = new AbortController();
      try {
        using _held = await this.#lock.acquire(this.#nobodyWaits.signal);
        await this.#group();
      } catch (error) {
        // All had left; whoever came since then waits for the lock anew.
        if (this.#nobodyWaits.signal.aborted) continue;
        // The lock or the file failed before anybody's turn had come.
        for (const waiting of this.#queue) {
          this.#queue.remove(waiting);
          waiting.refuse(error);
        }
      }
    }
    this.#working = undefined;
  }

  /** One turn with the lock: all who wait now, and one write for all of them. */
  async #group(): Promise<void> {
    const { text: before, stats } = await this.#loadOrSetAside();
    const changed: Transaction<T>[] = [];
    let text = before;
    for (let left = this.#queue.size; left > 0; left -= 1) {
      const transaction = this.#queue.shift();
      if (transaction === undefined) break;
      if (!mayGrant(this.#clock.now())) await new Promise<void>(nextTurn);
      try {
        text = await this.#apply(transaction, text);
        transaction.isApplied = true;
        changed.push(transaction);
      } catch (error) {
        transaction.refuse(error);
      }
    }
    try {
      if (text !== before) await this.#file.replace(text, stats);
    } catch (error) {
      for (const transaction of changed) transaction.refuse(error);
      return;
    }
    if (text !== before) this.#writes += 1;
    this.#transactions += changed.length;
    for (const transaction of changed) transaction.grant(transaction.result as T);
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

  /** The text is what is kept between two changes, so that nobody can reach into it. */
  async #apply(transaction: Transaction<T>, before: string): Promise<string> {
    const { change, signal } = transaction;
    signal.throwIfAborted();
    const draft: T = JSON.parse(before);
    const outcome = change(draft, signal);
    const given = outcome instanceof Promise ? await untilAborted(outcome, signal) : outcome;
    transaction.result = given === undefined ? draft : given;
    const text = encode(transaction.result);
    const bytes = Buffer.byteLength(text);
    if (bytes <= this.#bytesMax) return text;
    const message = `${this.#file.path} would have ${bytes} bytes, more than its ${this.#bytesMax}`;
    throw new SpillwayError('DOCUMENT_TOO_LARGE', message);
  }
}

function encode(value: unknown): string {
  try {
    const text: string | undefined = JSON.stringify(value);
    if (text !== undefined) return text;
  } catch (cause) {
    throw misuse('value', 'what JSON can hold', value, cause);
  }
  throw misuse('value', 'what JSON can hold', value);
}
