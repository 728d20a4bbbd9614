import {
  Breaker,
  Bucket,
  type Clock,
  Lane,
  type Outbound,
  type OutboundStats,
  outbound,
  SpillwayError,
} from 'spillway';
import { check, checkNumber } from 'spillway/internal';
import { type Dispatcher, EnvHttpProxyAgent, request } from 'undici';
import { fleetError } from '../errors.ts';

export interface OutsideHostOptions {
  /** Name of the host in errors and statistics. */
  readonly name: string;
  /** Start of all its addresses, as in `https://api.github.com`; nothing else is ever asked. */
  readonly url: string;
  /** Sent with every call. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Carries the calls, through proxies where there are any. */
  readonly dispatcher: Dispatcher;
  /** Longest time for one attempt, in milliseconds, from 1. @default 3000 */
  readonly attemptMsMax?: number | undefined;
  readonly clock: Clock;
}

export interface OutsideCall {
  /** The parts of the path, each of which is encoded. */
  readonly path: readonly string[];
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An answer whose body is still to be read, or dumped. */
export type OutsideAnswer = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers' | 'body'>;

/** Reads an answer to its end; what it throws with a status from 500 speaks against the host. */
export type ReadAnswer<T> = (answer: OutsideAnswer, signal: AbortSignal) => Promise<T>;

const redirectsMax = 3;
/** Calls that may be under way, and calls that may wait. */
const callsMax = 4;
const queueMax = 64;
const attemptsMax = 2;
/** Calls that may start each second. */
const ratePerSecond = 10;

/**
 * One host of others, and the only way to it: bounded in calls at once, calls a second and time;
 * left alone while it keeps failing. No answer of it leads to another host.
 */
export class OutsideHost {
  readonly name: string;
  readonly #base: URL;
  readonly #options: OutsideHostOptions;
  readonly #clock: Clock;
  readonly #bucket: Bucket;
  readonly #calls: Outbound;
  /** Until then it wants no calls. */
  #quietUntil = -Infinity;

  constructor(options: OutsideHostOptions) {
    const { name, url, attemptMsMax = 3_000, clock } = options;
    check(URL.canParse(url), 'url', 'an address', url);
    checkNumber('attemptMsMax', attemptMsMax, 1);
    this.name = name;
    this.#base = new URL(url.endsWith('/') ? url : `${url}/`);
    check(/^https?:$/.test(this.#base.protocol), 'url', 'http:// or https://', url);
    this.#options = options;
    this.#clock = clock;
    const deadlineMs = 2 * attemptsMax * attemptMsMax;
    this.#bucket = new Bucket({ ratePerSecond, burst: ratePerSecond, queueMax, clock });
    this.#calls = outbound({
      lane: new Lane({ name, limit: { fixed: callsMax }, queueMax, deadlineMs, clock }),
      rate: this.#bucket,
      breaker: new Breaker({ successesToClose: 1, isFailure, clock }),
      retry: { attemptsMax, isRetryable: isFailure },
      attemptMs: attemptMsMax,
      deadlineMs,
      // An answer that is a failure is thrown.
      isFailure: () => false,
      clock,
    });
  }

  get stats(): OutboundStats {
    return this.#calls.stats;
  }

  /** Asks, and once more if the way there or the host itself failed. */
  get<T>(call: OutsideCall, read: ReadAnswer<T>): Promise<T> {
    const url = this.#address(call);
    const retryAfterMs = this.#quietUntil - this.#clock.now();
    if (retryAfterMs > 0) return Promise.reject(this.#limited(retryAfterMs));
    const ask = (signal: AbortSignal) => this.#ask(url, call, read, signal);
    return this.#calls.run(ask, { signal: call.signal });
  }

  /** The error for a host that wants less: until then calls are refused at once. */
  limited(retryAfterMs: number): SpillwayError {
    this.#quietUntil = Math.max(this.#quietUntil, this.#clock.now() + retryAfterMs);
    this.#bucket.slow();
    return this.#limited(retryAfterMs);
  }

  #limited(retryAfterMs: number): SpillwayError {
    return fleetError('OUTSIDE_LIMITED', `${this.name} wants less`, { retryAfterMs });
  }

  #address({ path, query = {} }: OutsideCall): URL {
    // A part of dots would be a step up, and an empty one a host of its own.
    const isPlain = path.every((part) => !/^\.*$/.test(part) && part.isWellFormed());
    if (!isPlain) throw fleetError('OUTSIDE_REFUSED', `${this.name}: no path: ${path.join('/')}`);
    const url = new URL(path.map(encodeURIComponent).join('/'), this.#base);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    return this.#inside(url);
  }

  #inside(url: URL): URL {
    const { origin, pathname } = this.#base;
    if (url.origin === origin && url.pathname.startsWith(pathname)) return url;
    throw fleetError('OUTSIDE_REFUSED', `${this.name}: leads to ${url.origin}, not to ${origin}`);
  }

  async #ask<T>(url: URL, call: OutsideCall, read: ReadAnswer<T>, signal: AbortSignal): Promise<T> {
    const { dispatcher } = this.#options;
    const headers = { ...this.#options.headers, ...call.headers };
    try {
      let at = url;
      for (let hop = 0; hop <= redirectsMax; hop += 1) {
        const answer = await request(at, { dispatcher, headers, signal });
        const { location } = answer.headers;
        const isRedirect = [301, 302, 303, 307, 308].includes(answer.statusCode);
        if (!isRedirect || typeof location !== 'string') {
          return await this.#read(answer, read, signal);
        }
        await answer.body.dump({ limit: 65_536, signal });
        if (!URL.canParse(location, at.href)) throw this.failure('sends nowhere');
        at = this.#inside(new URL(location, at));
      }
      throw this.failure('redirects without end');
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof SpillwayError) throw error;
      throw this.failure('cannot be reached', error);
    }
  }

  async #read<T>(answer: OutsideAnswer, read: ReadAnswer<T>, signal: AbortSignal): Promise<T> {
    try {
      if (answer.statusCode >= 500) throw this.failure(`answers ${answer.statusCode}`);
      return await read(answer, signal);
    } finally {
      // Of a body that was read to its end nothing is left to destroy.
      answer.body.on('error', () => {}).destroy();
    }
  }

  /** An error that speaks against the host. */
  failure(what: string, cause?: unknown): SpillwayError {
    return fleetError('OUTSIDE_FAILED', `${this.name} ${what}`, { cause });
  }
}

/** True for failures of the host; a demand for less, or a way elsewhere, is an answer too. */
function isFailure(error: unknown): boolean {
  const { code } = Object(error);
  return code === 'OUTSIDE_FAILED' || code === 'DEADLINE';
}

/** The standard variables, each in small or capital letters. */
export type ProxyVariables = Readonly<Record<string, string | undefined>>;

/** The way to hosts outside: directly, or as `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say. */
export function outsideDispatcher(variables: ProxyVariables): Dispatcher {
  const of = (name: string) => variables[name.toLowerCase()] ?? variables[name] ?? '';
  return new EnvHttpProxyAgent({
    httpProxy: of('HTTP_PROXY'),
    httpsProxy: of('HTTPS_PROXY'),
    noProxy: of('NO_PROXY'),
    connect: { timeout: 3_000 },
    // A host that accepts calls and says nothing is the deadline's matter.
    connections: 8,
  });
}
