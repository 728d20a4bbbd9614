import { inspect } from 'node:util';
import { onceAborted } from '../base/abort.ts';
import { check } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { field } from '../base/failure.ts';
import { clockRule, instance, number, or, settle, word } from '../base/options.ts';
import type { CloseOptions, Part } from '../base/part.ts';
import { nextTurn } from '../wait/turn-budget.ts';
import { StopSignal } from './stop-signal.ts';

export interface ServiceOptions {
  /** Started in this order, closed in reverse. A part without `start` counts as open already. */
  readonly parts: readonly Part[];
  /** The name of this service, which is itself a part. @default 'service' */
  readonly name?: string | undefined;
  /** The time to close all parts together, in milliseconds, from 0. @default 8_000 */
  readonly closeMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** The states of a service, in their order. */
export type ServiceState = 'new' | 'starting' | 'ready' | 'closing' | 'closed';

/** The state of a part; in a closed service `starting` or `closing` means it did not finish. */
export type PartState = 'new' | 'starting' | 'started' | 'closing' | 'closed' | 'failed';

export interface ServiceStats {
  readonly kind: 'service';
  readonly state: ServiceState;
  readonly parts: readonly {
    readonly name: string;
    readonly state: PartState;
    /** The time it took to start; undefined until it has. */
    readonly startMs: number | undefined;
  }[];
}

/** A part and its state. */
class Member {
  readonly part: Part;
  state: PartState = 'new';
  startMs: number | undefined = undefined;
  error: unknown = undefined;
  #opened: unknown = undefined;
  #starting: Promise<void> | undefined = undefined;

  constructor(part: Part) {
    this.part = part;
  }

  get ready(): boolean {
    const opened: Partial<Part> = Object(this.#opened);
    return this.state === 'started' && this.part.ready !== false && opened.ready !== false;
  }

  get fault(): string | undefined {
    const opened: Partial<Part> = Object(this.#opened);
    return this.part.fault ?? opened.fault;
  }

  start(signal: AbortSignal, clock: Clock): Promise<void> {
    this.#starting = this.#start(signal, clock);
    return this.#starting;
  }

  async #start(signal: AbortSignal, clock: Clock): Promise<void> {
    const startedAt = clock.now();
    this.state = 'starting';
    try {
      this.#opened = await this.part.start?.({ signal });
      this.state = 'started';
      this.startMs = clock.now() - startedAt;
    } catch (error) {
      this.state = 'failed';
      this.error = error;
    }
  }

  /** Closes a part that is open, late if need be; tells whether that failed. */
  async close(options: CloseOptions): Promise<boolean> {
    await this.#starting;
    const isOpen = this.state === 'new' && this.part.start === undefined;
    if (this.state !== 'started' && !isOpen) return false;
    this.state = 'closing';
    try {
      if (this.part.close !== undefined) await this.part.close(options);
      else await closeOpened(this.#opened ?? this.part, options);
      this.state = 'closed';
      return false;
    } catch (error) {
      this.state = 'failed';
      this.error = error;
      return true;
    }
  }
}

/**
 * Parts that start in order and close in reverse, within a limit: `await service.run();`. A part
 * may be open already (a pool, a database); the service owns it from then on and closes it.
 */
export class Service implements Part, AsyncDisposable {
  readonly name: string;
  readonly #members: readonly Member[];
  readonly #closeMsMax: number;
  readonly #clock: Clock;
  readonly #closeAsked = new AbortController();
  #state: ServiceState = 'new';
  #starting: Promise<void> | undefined = undefined;
  #closing: Promise<void> | undefined = undefined;

  constructor(options: ServiceOptions) {
    const { parts, name, closeMsMax, clock } = settle('Service', options, {
      parts: instance(Array.isArray, 'an array'),
      name: or(word, 'service'),
      // Docker kills a container 10 s after it has asked it to stop.
      closeMsMax: or(number(0), 8_000),
      clock: or(clockRule, systemClock),
    });
    const names = parts.map((part) => part.name);
    const named = names.every((each) => typeof each === 'string' && each !== '');
    const differ = new Set(names).size === names.length;
    check(named && differ, 'Service: parts', 'named, each differently', names);
    const method = parts.find((part) => typeof part.ready === 'function');
    check(method === undefined, 'Service: parts', 'asked by a property `ready`', method);
    this.name = name;
    this.#members = parts.map((part) => new Member(part));
    this.#closeMsMax = closeMsMax;
    this.#clock = clock;
  }

  /** True if work may be sent here: all parts are started and ready, and nothing closes. */
  get ready(): boolean {
    return this.#state === 'ready' && this.unready.length === 0;
  }

  /** The names of the parts that have not started, have closed, or report not ready. */
  get unready(): readonly string[] {
    return this.#members.filter(({ ready }) => !ready).map(({ part }) => part.name);
  }

  /** The reasons of the parts that are not ready, by name, where the part gives one. */
  get faults(): Readonly<Record<string, string>> {
    const entries = this.#members.flatMap(({ part, ready, fault }) => {
      return ready || fault === undefined ? [] : [[part.name, fault] as const];
    });
    return Object.fromEntries(entries);
  }

  get stats(): ServiceStats {
    const parts = this.#members.map(({ part, state, startMs }) => {
      return { name: part.name, state, startMs };
    });
    return { kind: 'service', state: this.#state, parts };
  }

  /**
   * Starts the parts in order. If one fails, those before it are closed in reverse, and this
   * rejects with `SERVICE_START`; if `close` is called meanwhile, with an `AbortError`.
   */
  start(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#state === 'new') this.#state = 'starting';
    this.#starting ??= this.#start(options.signal);
    return this.#starting;
  }

  /**
   * Closes all parts in reverse, even if some fail or take too long; then it rejects with
   * `SERVICE_CLOSE`, which names those. Every call gets the same promise.
   */
  close(options: CloseOptions = {}): Promise<void> {
    if (this.#closing === undefined) {
      this.#state = 'closing';
      const asked = onceAborted(this.#closeAsked.signal);
      this.#closing = asked.then(() => this.#close(options));
      this.#closeAsked.abort();
    }
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Starts, serves until SIGTERM, SIGINT or `close`, and ends the process: with code 0 if all parts
   * are closed, else with 1 and the reason on stderr. A second signal ends it at once.
   */
  async run(): Promise<never> {
    // Neither a signal's listener nor a promise keeps a process alive.
    using _alive = systemClock.after(Number.MAX_SAFE_INTEGER, () => {});
    using stop = new StopSignal({ left: () => `Not closed: ${this.#left().join(', ')}` });
    // The outcome is seen below.
    stop.signal.addEventListener('abort', () => void this.close().catch(() => {}));
    const { signal } = this.#closeAsked;
    try {
      await this.start().catch((error) => {
        if (error !== signal.reason) throw error;
      });
      await onceAborted(signal);
      await this.close();
    } catch (error) {
      process.stderr.write(`${describe(error)}\n`);
      process.exit(1);
    }
    process.exit(0);
  }

  async #start(asked: AbortSignal | undefined): Promise<void> {
    const { signal } = this.#closeAsked;
    // A part may call back into the service, which must know this promise by then.
    await undefined;
    const end = () => void this.close().catch(() => {});
    if (asked?.aborted) end();
    asked?.addEventListener('abort', end, { once: true });
    try {
      signal.throwIfAborted();
      for (const member of this.#members) await this.#startPart(member, signal);
    } finally {
      asked?.removeEventListener('abort', end);
    }
    this.#state = 'ready';
  }

  async #startPart(member: Member, signal: AbortSignal): Promise<void> {
    await Promise.race([member.start(signal, this.#clock), onceAborted(signal)]);
    if (signal.aborted) {
      await this.close().catch(() => {});
      throw signal.reason;
    }
    if (member.state !== 'failed') return;
    const cause = member.error;
    const left = await this.close().then(
      () => '',
      (error: Error) => `; then ${error.message}`,
    );
    const message = `part "${member.part.name}" failed to start: ${reason(cause)}${left}`;
    throw new SpillwayError('SERVICE_START', message, { cause });
  }

  async #close({ withinMs = this.#closeMsMax, signal: parent }: CloseOptions): Promise<void> {
    using limit = deadline(this.#clock, withinMs, parent);
    const endsAt = this.#clock.now() + withinMs;
    const { signal } = limit;
    const over = onceAborted(signal);
    const failed: Member[] = [];
    for (const member of this.#members.toReversed()) {
      const restMs = Math.max(0, endsAt - this.#clock.now());
      const closed = member.close({ signal, withinMs: restMs }).then((hasFailed) => {
        if (hasFailed) failed.push(member);
      });
      await Promise.race([closed, over]);
    }
    // Parts that give up or close by force at the limit get a moment to report it.
    if (signal.aborted) await new Promise<void>(nextTurn);
    this.#state = 'closed';
    const left = this.#left();
    if (left.length === 0 && failed.length === 0) return;
    const faults = failed.map(({ part, error }) => `${part.name} failed (${reason(error)})`);
    if (left.length > 0) faults.unshift(`${left.join(', ')} not within ${withinMs} ms`);
    const message = `could not close everything: ${faults.join(', ')}`;
    const errors = failed.map(({ error }) => error);
    const cause = errors.length > 1 ? new AggregateError(errors) : errors[0];
    throw new SpillwayError('SERVICE_CLOSE', message, failed.length > 0 ? { cause } : {});
  }

  /** The names of the parts that are neither closed nor have failed. */
  #left(): string[] {
    const over: readonly PartState[] = ['new', 'closed', 'failed'];
    return this.#members.flatMap(({ part, state }) => (over.includes(state) ? [] : [part.name]));
  }
}

/** Closes a part by `close`; any other disposable is disposed. */
async function closeOpened(opened: unknown, options: CloseOptions): Promise<void> {
  const held: Partial<Part & AsyncDisposable & Disposable> = Object(opened);
  // A server of Node has a `close` too, but one that takes a callback.
  const isPart = typeof held.name === 'string' && typeof held.close === 'function';
  if (isPart) await held.close?.(options);
  else if (Symbol.asyncDispose in held) await held[Symbol.asyncDispose]?.();
  else held[Symbol.dispose]?.();
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** One line; with the stack of the cause if there is one that is not of the operating system. */
function describe(error: unknown): string {
  if (!(error instanceof SpillwayError)) return inspect(error);
  const { cause } = error;
  const isPlain = cause === undefined || field(cause, 'syscall') !== undefined;
  return isPlain ? `${error.code}: ${error.message}` : inspect(error);
}
