import type { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { type Clock, type Entry, type Lane, type Permit, SpillwayError } from 'spillway';
import type { DeadlineLine, Due } from './deadline-line.ts';
import { refuseBody } from './unread-body.ts';

/** The lane's view of a request. Its signal is made only if the request has to wait. */
class RequestEntry implements Entry {
  readonly #permit: RequestPermit;

  constructor(permit: RequestPermit) {
    this.#permit = permit;
  }

  makeSignal(): AbortSignal {
    return this.#permit.signal;
  }
}

/**
 * A request's way through its lane: from its arrival until its answer has left and its handler has
 * ended, whichever is later.
 */
export class RequestPermit implements Due, Disposable {
  readonly lane: Lane;
  readonly dueAt: number;
  readonly #reply: FastifyReply;
  readonly #line: DeadlineLine;
  readonly #clock: Clock;
  readonly #arrivedAt: number;
  #controller: AbortController | undefined;
  /** Why the request is over before its time, once it is. */
  #reason: Error | undefined;
  #held: Permit | undefined;
  #handling = false;
  /** The handler ran to its end, though its client may have gone or its deadline passed. */
  #isDone = false;
  #whenLate: ((isDone: boolean) => void) | undefined;
  /** The answer has left, or nobody is there any more to receive it. */
  #closed = false;

  constructor(lane: Lane, reply: FastifyReply, line: DeadlineLine, clock: Clock) {
    this.lane = lane;
    this.#arrivedAt = clock.now();
    this.dueAt = this.#arrivedAt + lane.deadlineMs;
    this.#reply = reply;
    this.#line = line;
    this.#clock = clock;
    reply.raw.on('close', this.#close);
    // Behind other answers on its connection, it is not told by Node that the client has gone if
    // the connection was to become something else.
    if (reply.raw.socket === null) reply.request.raw.socket.on('close', this.#close);
    if (this.dueAt < Infinity) line.add(this);
  }

  /**
   * Aborts at the lane's deadline, with code `DEADLINE`, or when the client has gone. It is made
   * when first asked for, since it costs more than all the rest of the way.
   */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Milliseconds since the request arrived. */
  get elapsedMs(): number {
    return this.#clock.now() - this.#arrivedAt;
  }

  /** Whether a place in the lane is held now. */
  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  /** Waits for a place; says so by the callback, with the error if there is none. */
  enter(done: (error?: Error) => void): void {
    let permit: Permit | Promise<Permit>;
    try {
      permit = this.lane.enter(new RequestEntry(this));
    } catch (error) {
      this.#refuse(error as Error, done);
      return;
    }
    if (permit instanceof Promise) {
      permit.then(
        (held) => this.#admit(held, done),
        (error: Error) => this.#refuse(error, done),
      );
    } else {
      // At once, not a promise later: else the body's first bytes arrive before their reader does.
      this.#admit(permit, done);
    }
  }

  /** Runs the handler; what it gives after its deadline goes nowhere. */
  handle(handler: () => unknown): unknown {
    this.#handling = true;
    let result: unknown;
    try {
      result = handler();
    } catch (error) {
      this.#end(false);
      throw error;
    }
    // A reply is a thenable of its own: it is over when the answer has left.
    if (result !== this.#reply && typeof Object(result).then === 'function') {
      return Promise.resolve(result).then(this.#settle, this.#fail);
    }
    this.#end(true);
    return result;
  }

  /**
   * If the handler goes on though its deadline is over, calls back when it ends, with whether it
   * did what was asked for; says whether it does go on.
   */
  whenLate(callback: (isDone: boolean) => void): boolean {
    const isLate = this.#handling && this.#isAnswered;
    if (isLate) this.#whenLate = callback;
    return isLate;
  }

  /** The time is over. The client hears so at once; a handler that goes on keeps its place. */
  expire(): void {
    // The lane itself refuses those who still wait.
    if (this.#held === undefined) return;
    const { raw, request } = this.#reply;
    const isUnderWay = raw.headersSent || this.#reply.sent;
    // A stream has kept its deadline when it begins to flow.
    if (isUnderWay && request.routeOptions.config.domain === 'stream') return;
    const message = `not answered within ${this.lane.deadlineMs} ms`;
    const error = new SpillwayError('DEADLINE', message);
    this.#held.outcome = 'late';
    this.#abort(error);
    if (this.#closed || this.#reply.sent) return;
    if (raw.headersSent) {
      raw.destroy();
      return;
    }
    refuseBody(this.#reply, this.#clock, true);
    this.#reply.send(error);
  }

  /** Gives the place back early: for a connection that lives on under limits of its own. */
  [Symbol.dispose](): void {
    this.#line.delete(this);
    this.#release();
  }

  #admit(held: Permit, done: () => void): void {
    this.#held = held;
    if (this.#closed) this.#release();
    else done();
  }

  #refuse(error: Error, done: (error: Error) => void): void {
    this.#line.delete(this);
    if (this.#closed) return;
    refuseBody(this.#reply, this.#clock);
    done(error);
  }

  readonly #settle = (value: unknown): unknown => {
    this.#end(true);
    if (this.#reason === undefined) return value;
    const late: { pipe?: unknown; destroy?: unknown } = Object(value);
    const isStream = typeof late.pipe === 'function' && typeof late.destroy === 'function';
    if (isStream) (late as Readable).destroy();
    // For one who has gone it is kept, if a hook does so, until that one asks again.
    return isStream || this.#isAnswered ? undefined : value;
  };

  readonly #fail = (error: unknown): undefined => {
    this.#end(false);
    if (!this.#isAnswered) throw error;
    this.#reply.log.debug({ err: error }, 'failed when its request was over');
  };

  /** The deadline has answered, and not the handler. */
  get #isAnswered(): boolean {
    return this.#reason instanceof SpillwayError;
  }

  #end(isDone: boolean): void {
    this.#handling = false;
    this.#isDone = isDone;
    this.#whenLate?.(isDone);
    // An upgraded socket may live for days, within the limits of whoever keeps it.
    const isHijacked = this.#reply.sent && !this.#reply.raw.writableEnded;
    if (isHijacked && 'ws' in this.#reply.request && this.#reply.request.ws === true) {
      this[Symbol.dispose]();
    } else if (this.#closed) {
      this.#release();
    }
  }

  readonly #close = (): void => {
    this.#closed = true;
    this.#reply.request.raw.socket.off('close', this.#close);
    this.#line.delete(this);
    if (!this.#reply.raw.writableEnded && this.#reason === undefined) {
      if (this.#held !== undefined) this.#held.outcome = 'aborted';
      this.#abort(new DOMException('the client has gone', 'AbortError'));
    }
    if (!this.#handling) this.#release();
  };

  #abort(reason: Error): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  #release(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    const { statusCode } = this.#reply.raw;
    const isTooMuch = statusCode === 503 || statusCode === 504 || statusCode === 429;
    if (held.outcome === 'ok' && isTooMuch) held.outcome = 'overloaded';
    if (held.outcome === 'ok' && statusCode >= 500) held.outcome = 'failed';
    held.isWhole = held.outcome === 'ok' || this.#isDone;
    held[Symbol.dispose]();
  }
}
