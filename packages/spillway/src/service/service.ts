import { constants } from 'node:os';
import { inspect } from 'node:util';
import { check, checkNumber } from '../base/check.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { deadline } from '../base/deadline.ts';
import { SpillwayError } from '../base/errors.ts';
import { nextTurn } from '../wait/turn.ts';

/** One thing a service is made of: a database, a pool, a backlog, an HTTP server. */
export interface Part {
  /** Unique in its service; errors and stats call the part by it. */
  readonly name: string;
  /**
   * Opens the part; the signal aborts when the service is stopped meanwhile. What it gives back is
   * disposed at the end if it is disposable and the part has no `stop`.
   */
  start?(signal: AbortSignal): unknown;
  /** Whether the part can work now; once started it can, by default. */
  ready?(): boolean;
  /** Drains and closes the part; the signal aborts when the time to stop is over. */
  stop?(signal: AbortSignal): unknown;
}

export interface ServiceOptions {
  /** Started in this order, stopped in reverse. */
  readonly parts: readonly Part[];
  /** How long stopping may take, all parts together; 8,000 ms by default: Docker kills at 10 s. */
  readonly stopMsMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

export type ServiceState = 'new' | 'starting' | 'ready' | 'stopping' | 'stopped';

/** Where a part is; one that stays `starting` or `stopping` in a stopped service was left. */
export type PartState = 'new' | 'starting' | 'started' | 'stopping' | 'stopped' | 'failed';

export interface ServiceStats {
  readonly state: ServiceState;
  readonly parts: readonly {
    readonly name: string;
    readonly state: PartState;
    /** How long it took to start; undefined until it has. */
    readonly startMs: number | undefined;
  }[];
}

/** A part and what became of it. */
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

  start(signal: AbortSignal, clock: Clock): Promise<void> {
    this.#starting = this.#start(signal, clock);
    return this.#starting;
  }

  async #start(signal: AbortSignal, clock: Clock): Promise<void> {
    const startedAt = clock.now();
    this.state = 'starting';
    try {
      this.#opened = await this.part.start?.(signal);
      this.state = 'started';
      this.startMs = clock.now() - startedAt;
    } catch (error) {
      this.state = 'failed';
      this.error = error;
    }
  }

  /** Stops what has started, late if need be; says whether that failed. */
  async stop(signal: AbortSignal): Promise<boolean> {
    await this.#starting;
    if (this.state !== 'started') return false;
    this.state = 'stopping';
    try {
      if (this.part.stop === undefined) await dispose(this.#opened);
      else await this.part.stop(signal);
      this.state = 'stopped';
      return false;
    } catch (error) {
      this.state = 'failed';
      this.error = error;
      return true;
    }
  }
}

/** Parts that start in order and stop in reverse, within a limit: `await service.run();` */
export class Service implements AsyncDisposable {
  readonly #members: readonly Member[];
  readonly #stopMsMax: number;
  readonly #clock: Clock;
  readonly #stopAsked = new AbortController();
  #state: ServiceState = 'new';
  #starting: Promise<void> | undefined = undefined;
  #stopping: Promise<void> | undefined = undefined;

  constructor(options: ServiceOptions) {
    const { parts, stopMsMax = 8_000, clock = systemClock } = options;
    check(Array.isArray(parts), 'parts', 'an array', parts);
    const names = parts.map(({ name }) => name);
    const named = names.every((name) => typeof name === 'string' && name !== '');
    check(named && new Set(names).size === names.length, 'parts', 'named, each differently', names);
    checkNumber('stopMsMax', stopMsMax, 0);
    this.#members = parts.map((part) => new Member(part));
    this.#stopMsMax = stopMsMax;
    this.#clock = clock;
  }

  /** Whether to send work here: everything is started, every part is ready, nothing stops. */
  get ready(): boolean {
    return this.#state === 'ready' && this.unready.length === 0;
  }

  /** The names of the parts that have not started, have stopped, or say that they cannot work. */
  get unready(): readonly string[] {
    const cannot = ({ part, state }: Member) => state !== 'started' || !(part.ready?.() ?? true);
    return this.#members.filter(cannot).map(({ part }) => part.name);
  }

  get stats(): ServiceStats {
    const parts = this.#members.map(({ part, state, startMs }) => {
      return { name: part.name, state, startMs };
    });
    return { state: this.#state, parts };
  }

  /**
   * Starts the parts in order. If one fails, those before it are stopped in reverse, and this
   * rejects with `SERVICE_START`; if `stop` is called meanwhile, with an `AbortError`.
   */
  start(): Promise<void> {
    if (this.#state === 'new') this.#state = 'starting';
    this.#starting ??= this.#start();
    return this.#starting;
  }

  /**
   * Stops the parts in reverse, each though others fail or take too long; rejects with
   * `SERVICE_STOP`, which names those. Every call gets the same promise.
   */
  stop(): Promise<void> {
    if (this.#stopping === undefined) {
      this.#state = 'stopping';
      this.#stopping = aborted(this.#stopAsked.signal).then(() => this.#stop());
      this.#stopAsked.abort();
    }
    return this.#stopping;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /**
   * Starts, serves until SIGTERM, SIGINT or `stop`, and ends the process: with code 0 if everything
   * has stopped, else with 1 and the reason on stderr. A second signal ends it at once.
   */
  async run(): Promise<never> {
    // Neither a signal's listener nor a promise keeps a process alive.
    using _alive = systemClock.after(Number.MAX_SAFE_INTEGER, () => {});
    let asked = false;
    const end = (name: NodeJS.Signals) => {
      if (asked) {
        process.stderr.write(`${name} again; not stopped: ${this.#left().join(', ')}\n`);
        process.exit(128 + constants.signals[name]);
      }
      asked = true;
      // The outcome is seen below.
      this.stop().catch(() => {});
    };
    process.on('SIGTERM', end).on('SIGINT', end);
    const { signal } = this.#stopAsked;
    try {
      await this.start().catch((error) => {
        if (error !== signal.reason) throw error;
      });
      await aborted(signal);
      await this.stop();
    } catch (error) {
      process.stderr.write(`${describe(error)}\n`);
      process.exit(1);
    }
    process.exit(0);
  }

  async #start(): Promise<void> {
    const { signal } = this.#stopAsked;
    // A part may call back into the service, which must know this promise by then.
    await undefined;
    signal.throwIfAborted();
    for (const member of this.#members) {
      await Promise.race([member.start(signal, this.#clock), aborted(signal)]);
      if (signal.aborted) {
        await this.stop().catch(() => {});
        throw signal.reason;
      }
      if (member.state === 'failed') {
        const cause = member.error;
        const left = await this.stop().then(
          () => '',
          (error: Error) => `; then ${error.message}`,
        );
        const message = `part "${member.part.name}" failed to start: ${reason(cause)}${left}`;
        throw new SpillwayError('SERVICE_START', message, { cause });
      }
    }
    this.#state = 'ready';
  }

  async #stop(): Promise<void> {
    using limit = deadline(this.#clock, this.#stopMsMax);
    const { signal } = limit;
    const over = aborted(signal);
    const failed: Member[] = [];
    for (const member of this.#members.toReversed()) {
      const stopped = member.stop(signal).then((hasFailed) => {
        if (hasFailed) failed.push(member);
      });
      await Promise.race([stopped, over]);
    }
    // What gives up or closes by force when the time is over gets a moment to say so.
    if (signal.aborted) await new Promise<void>(nextTurn);
    this.#state = 'stopped';
    const left = this.#left();
    if (left.length === 0 && failed.length === 0) return;
    const faults = failed.map(({ part, error }) => `${part.name} failed (${reason(error)})`);
    if (left.length > 0) faults.unshift(`${left.join(', ')} not within ${this.#stopMsMax} ms`);
    const message = `could not stop everything: ${faults.join(', ')}`;
    const errors = failed.map(({ error }) => error);
    const cause = errors.length > 1 ? new AggregateError(errors) : errors[0];
    throw new SpillwayError('SERVICE_STOP', message, failed.length > 0 ? { cause } : {});
  }

  /** The names of the parts that are neither closed nor have failed. */
  #left(): string[] {
    const over: readonly PartState[] = ['new', 'stopped', 'failed'];
    return this.#members.flatMap(({ part, state }) => (over.includes(state) ? [] : [part.name]));
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

async function dispose(opened: unknown): Promise<void> {
  const held: Partial<AsyncDisposable & Disposable> = Object(opened);
  if (Symbol.asyncDispose in held) await held[Symbol.asyncDispose]?.();
  else held[Symbol.dispose]?.();
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** One line, or with the stack of what led to it if anything did. */
function describe(error: unknown): string {
  const plain = error instanceof SpillwayError && error.cause === undefined;
  return plain ? `${error.code}: ${error.message}` : inspect(error);
}
