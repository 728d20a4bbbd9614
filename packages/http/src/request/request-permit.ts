import type { Readable } from 'node:stream';
import type { FastifyReply, RouteHandlerMethod } from 'fastify';
import { type Clock, type Entry, type Lane, type Permit, SpillwayError } from 'spillway';
import {
  admit,
  Deadlines,
  LastStretch,
  loopWatch,
  nextTurn,
  Ring,
  type RingMember,
} from 'spillway/internal';
import { clientKey } from '../base/address-key.ts';
import type { RouteNumbers } from '../operator/routes.ts';
import { type Exchange, StalledClients, takenBytes } from './stalled-clients.ts';
import { isStream, refuseBody } from './unread-body.ts';

/** Header by which a client says for how many milliseconds it waits for the answer. */
const timeoutHeader = 'request-timeout-ms';
/** A handler that holds the event loop for this many ms at a stretch counts as computing. */
const computingMs = 2;

/**
 * The requests of one lane in the order of their deadlines, which is that of their arrival: one
 * timer serves all of them.
 */
export class LaneRequests implements Disposable {
  readonly lane: Lane;
  readonly clock: Clock;
  readonly lastStretch: LastStretch = new LastStretch();
  /** Not a Set: filling and emptying one all the time took 1 % of the time of a POST (2026-11). */
  readonly #open = new Ring<RequestPermit>();
  /** Requests with a deadline of their own, sooner than that of the lane, in no order. */
  readonly #hurried = new Ring<RequestPermit>();
  /** Streams that go on after their deadline. */
  readonly #flowing = new Ring<RequestPermit>();
  readonly #deadlines: Deadlines;
  readonly stalled: StalledClients;

  constructor(lane: Lane, clock: Clock) {
    this.lane = lane;
    this.clock = clock;
    this.#deadlines = new Deadlines(clock, (now) => this.#expire(now));
    this.stalled = new StalledClients(clock, () => {
      return [...this.#flowing, ...this.#hurried, ...this.#open];
    });
  }

  add(permit: RequestPermit): void {
    (permit.deadlineAt === undefined ? this.#open : this.#hurried).push(permit);
    this.#deadlines.watch(permit.dueAt);
  }

  /** Keeps a stream that goes on after its deadline among those that may stall. */
  flow(permit: RequestPermit): void {
    this.#flowing.push(permit);
  }

  delete(permit: RequestPermit): void {
    permit.ring?.remove(permit);
  }

  [Symbol.dispose](): void {
    this.#deadlines.clear();
    this.stalled[Symbol.dispose]();
  }

  #expire(now: number): number {
    let nextAt = Infinity;
    for (const permit of this.#hurried) {
      if (permit.dueAt > now) nextAt = Math.min(nextAt, permit.dueAt);
      else this.#end(permit);
    }
    for (const permit of this.#open) {
      if (permit.dueAt > now) return Math.min(nextAt, permit.dueAt);
      this.#end(permit);
    }
    return nextAt;
  }

  #end(permit: RequestPermit): void {
    this.delete(permit);
    permit.expire();
  }
}

/**
 * A request in its lane, from its arrival until its answer has left and its handler has ended,
 * whichever is later. It is the lane's {@link Entry} as well: the lane asks it for its signal and
 * its key only if the request has to wait.
 *
 * | its end | the client gets | outcome for the lane | the permit is released |
 * | --- | --- | --- | --- |
 * | the lane refuses it | 503, 504 | none: nothing began | there was none |
 * | the client leaves while it waits | nothing | none: nothing began | there was none |
 * | a guard, parser or schema refuses it | 4xx, 5xx | by status, not whole | with the answer |
 * | the handler answers | its answer | by status | with the last of answer and handler |
 * | the handler fails | 4xx, 5xx | by status | with the last of answer and handler |
 * | the deadline passes | 504, or a cut answer | `late` | when the handler has ended |
 * | the client leaves | nothing | `aborted` | when the handler has ended |
 * | it becomes a WebSocket | 101 | `ok` | at once: a socket has limits of its own |
 */
export class RequestPermit implements Entry, Exchange, RingMember, Disposable {
  ring: Ring<RingMember> | undefined = undefined;
  slot = 0;
  readonly dueAt: number;
  /** The client's own deadline, if it sent one that is sooner than the lane's. */
  readonly deadlineAt: number | undefined = undefined;
  readonly #requests: LaneRequests;
  readonly #reply: FastifyReply;
  readonly #numbers: RouteNumbers;
  readonly #arrivedAt: number;
  #controller: AbortController | undefined = undefined;
  /** The reason why the request is over before its time, once it is. */
  #reason: Error | undefined = undefined;
  #held: Permit | undefined = undefined;
  #state: 'new' | 'running' | 'done' | 'failed' = 'new';
  /** Milliseconds for which the handler computed before its end. */
  #computedMs = 0;
  #whenLate: ((isDone: boolean) => void) | undefined = undefined;
  /** True once the answer has left, or its client has gone. */
  #isClosed = false;

  constructor(requests: LaneRequests, reply: FastifyReply, numbers: RouteNumbers) {
    const { lane, clock } = requests;
    this.#arrivedAt = clock.now();
    const leftMs = leftMsOf(reply.request.raw.headers[timeoutHeader]);
    this.dueAt = this.#arrivedAt + Math.min(leftMs, lane.deadlineMs);
    if (leftMs < lane.deadlineMs) this.deadlineAt = this.dueAt;
    this.#requests = requests;
    this.#reply = reply;
    this.#numbers = numbers;
    reply.raw.on('close', this.#close);
    if (reply.raw.socket === null) {
      // Node does not report that the client has gone for an answer that waits behind others on a
      // connection that was to be upgraded. Each of them listens, so Node's warning means nothing.
      reply.request.raw.socket.setMaxListeners(0).on('close', this.#close);
    }
    if (this.dueAt < Infinity) requests.add(this);
  }

  get lane(): Lane {
    return this.#requests.lane;
  }

  /** Fairness key: clients that wait are served in turn. Read only if the request has to wait. */
  get key(): string {
    return clientKey(this.#reply.request);
  }

  /**
   * Aborts at the lane's deadline, with code `DEADLINE`, or when the client has gone. It is made
   * when first asked for, since it costs more than the rest of admission.
   */
  get signal(): AbortSignal {
    return this.makeSignal();
  }

  makeSignal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  get isHeld(): boolean {
    return this.#held !== undefined;
  }

  get clientBytes(): number | undefined {
    const { raw, request } = this.#reply;
    const { socket } = raw;
    if (socket === null) return undefined;
    const { readableFlowing, complete } = request.raw;
    const isSending = this.#state === 'new' && readableFlowing === true && !complete;
    const isOver = this.#state === 'done' || this.#state === 'failed';
    const isTaking = isOver && socket.writableLength > 0;
    return isSending || isTaking ? socket.bytesRead + takenBytes(socket) : undefined;
  }

  cut(): void {
    this.#reply.raw.destroy();
  }

  /** Milliseconds since the request arrived. */
  get elapsedMs(): number {
    return this.#requests.clock.now() - this.#arrivedAt;
  }

  /** Enters the lane, at once where that can be; gives the lane's refusal, if it refuses. */
  enter(): Error | undefined | Promise<Error | undefined> {
    const permit = admit(this.lane, this);
    if (permit instanceof Promise) {
      this.#requests.stalled.wait(1);
      return permit.then(
        (held) => this.#admitLate(held),
        (error) => {
          this.#requests.stalled.wait(-1);
          return this.#refused(error);
        },
      );
    }
    if (permit.refusal !== undefined) return this.#refused(permit.refusal);
    // Not by a promise: the first bytes of the body would arrive before their reader.
    this.#held = permit;
    return undefined;
  }

  /** Runs and measures the handler; a value that comes after the deadline is discarded. */
  handle(handler: RouteHandlerMethod, app: unknown): unknown {
    const reply = this.#reply;
    this.#state = 'running';
    loopWatch.mark();
    let result: unknown;
    try {
      result = (handler as (...given: unknown[]) => unknown).call(app, reply.request, reply);
    } catch (error) {
      this.#end(false, loopWatch.stretch());
      throw error;
    }
    const heldMs = loopWatch.stretch();
    // A reply is a thenable of its own: it is over when the answer has left.
    if (result === reply || typeof (result as PromiseLike<unknown> | null)?.then !== 'function') {
      this.#end(true, heldMs);
      return result;
    }
    const pending = result instanceof Promise ? result : Promise.resolve(result);
    return pending.then(
      (value) => this.#settle(value, heldMs),
      (error) => this.#fail(error, heldMs),
    );
  }

  /**
   * If the handler goes on though its deadline is over, calls back when it ends, with whether it
   * did its work; gives whether it does go on.
   */
  whenLate(callback: (isDone: boolean) => void): boolean {
    const isLate = this.#state === 'running' && this.#isAnswered;
    if (isLate) this.#whenLate = callback;
    return isLate;
  }

  /** Ends the request at its deadline: answers at once; a handler that goes on keeps its permit. */
  expire(): void {
    // The lane itself refuses requests that still wait.
    if (this.#held === undefined) return;
    const reply = this.#reply;
    const { raw } = reply;
    const isUnderWay = raw.headersSent || reply.sent;
    // A stream has kept its deadline when it begins to flow.
    if (isUnderWay && this.#numbers.route?.config?.domain === 'stream') {
      this.#requests.flow(this);
      return;
    }
    const withinMs = Math.round(this.dueAt - this.#arrivedAt);
    const error = new SpillwayError('DEADLINE', `not answered within ${withinMs} ms`);
    this.#held.outcome = 'late';
    this.#abort(error);
    if (this.#isClosed || reply.sent) return;
    if (raw.headersSent) {
      raw.destroy();
      return;
    }
    refuseBody(reply, this.#requests.clock, true);
    reply.send(error);
  }

  /** Gives the permit back early: for a connection that lives on under limits of its own. */
  [Symbol.dispose](): void {
    this.#requests.delete(this);
    this.#release();
  }

  #admitLate(held: Permit): undefined | Promise<undefined> {
    this.#requests.stalled.wait(-1);
    this.#held = held;
    if (!this.#isClosed) return undefined;
    this.#release();
    return never;
  }

  #refused(error: unknown): Error {
    loopWatch.mark();
    this.#requests.delete(this);
    this.#reply.raw.off('close', this.#close);
    return error as Error;
  }

  #settle(value: unknown, heldMs: number): unknown {
    this.#end(true, heldMs, true);
    if (Math.max(heldMs, this.#computedMs) < computingMs) return this.#answer(value);
    return this.#answerLater(value);
  }

  /**
   * Waits three turns of the event loop: Node needs them to notice that the client left while its
   * answer was computed. Otherwise the lane would count the answer as served.
   */
  async #answerLater(value: unknown): Promise<unknown> {
    for (let turn = 0; turn < 3; turn += 1) await new Promise<void>(nextTurn);
    return this.#answer(value);
  }

  #answer(value: unknown): unknown {
    if (this.#reason === undefined) return value;
    const isUnread = isStream(value) && typeof value.destroy === 'function';
    if (isUnread) (value as Readable).destroy();
    // If the client has gone, a hook may still keep the answer for its next request.
    return isUnread || this.#isAnswered ? undefined : value;
  }

  #fail(error: unknown, heldMs: number): undefined {
    // An open breaker called nobody, so its refusal says nothing about the load.
    const isUnasked = Object(error).code === 'BREAKER_OPEN';
    if (isUnasked && this.#held?.outcome === 'ok') this.#held.outcome = 'failed';
    this.#end(false, heldMs, true);
    if (!this.#isAnswered) throw error;
    this.#reply.log.debug({ err: error }, 'failed when its request was over');
  }

  /** True if the deadline has answered, and not the handler. */
  get #isAnswered(): boolean {
    return this.#reason instanceof SpillwayError;
  }

  #end(isDone: boolean, heldMs: number, isLater = false): void {
    const lastMs = isLater ? loopWatch.stretch() : 0;
    this.#numbers.loopMs.record(Math.max(heldMs, lastMs));
    this.#computedMs = this.#requests.lastStretch.learn(lastMs);
    if (this.#held !== undefined) this.#held.loopMs = Math.max(heldMs, this.#computedMs);
    this.#state = isDone ? 'done' : 'failed';
    this.#whenLate?.(isDone);
    const { request, raw, sent } = this.#reply;
    const isUpgraded = sent && !raw.writableEnded && (request as { ws?: unknown }).ws === true;
    if (isUpgraded) this[Symbol.dispose]();
    else if (this.#isClosed) this.#release();
  }

  readonly #close = (): void => {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { raw, request } = this.#reply;
    request.raw.socket.off('close', this.#close);
    this.#requests.delete(this);
    const now = this.#requests.clock.now();
    const status = raw.writableEnded ? raw.statusCode : 0;
    this.#numbers.add(status, now - this.#arrivedAt, now);
    if (status === 0 && this.#reason === undefined) {
      if (this.#held !== undefined) this.#held.outcome = 'aborted';
      this.#abort(new DOMException('the client has gone', 'AbortError'));
    }
    if (this.#state !== 'running') this.#release();
  };

  #abort(reason: Error): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  /** Releases the permit, with the outcome; nothing else does. */
  #release(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    const { statusCode } = this.#reply.raw;
    if (held.outcome === 'ok') held.outcome = outcomeOf(statusCode);
    // A request whose handler did not run is no sample of the service time.
    const isAnswer = this.#state === 'failed' && held.outcome === 'ok';
    held.isWhole = this.#state === 'done' || isAnswer;
    if (this.#computedMs === 0) held[Symbol.dispose]();
    else nextTurn(() => held[Symbol.dispose]());
  }
}

/** Milliseconds that the client says it waits; Infinity if it says nothing that makes sense. */
function leftMsOf(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^[0-9]{1,9}$/.test(header) ? Number(header) : Infinity;
}

/** Never settles: for a request whose client left while it waited. */
const never: Promise<undefined> = new Promise(() => {});

function outcomeOf(status: number): 'ok' | 'overloaded' | 'failed' {
  if (status === 503 || status === 504 || status === 429) return 'overloaded';
  return status >= 500 ? 'failed' : 'ok';
}
