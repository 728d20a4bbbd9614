import {
  BoundedMap,
  Breaker,
  Bucket,
  type Clock,
  Lane,
  type Outbound,
  type OutboundStats,
  outbound,
  SingleFlight,
  SpillwayError,
} from 'spillway';
import { check, checkNumber, retryAfterMsIn } from 'spillway/internal';
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
  /** Called with the headers of each answer to a question. @default nobody listens */
  readonly note?: ((headers: OutsideAnswer['headers']) => void) | undefined;
  readonly clock: Clock;
}

export interface OutsideCall {
  /** The parts of the path, each of which is encoded. */
  readonly path: readonly string[];
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A call whose answer is kept for a while. */
export interface OutsideQuestion<T> extends OutsideCall {
  /** Time for which an answer is used without asking again, in milliseconds; from 0. */
  readonly freshMs: number;
  /** Parses a body; an error counts as a failure of the host. */
  readonly parse: (body: Buffer) => T;
}

/** A cached answer with its validator. */
interface CachedAnswer {
  readonly value: unknown;
  /** Approximate size in memory, in bytes. */
  readonly bytes: number;
  readonly etag: string | undefined;
  /** Time at which the host last confirmed it. */
  readonly checkedAt: number;
}

/** An answer whose body is still to be read, or dumped. */
export type OutsideAnswer = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers' | 'body'>;

/** Reads an answer to its end; its errors with a status from 500 count as failures of the host. */
export type ReadAnswer<T> = (answer: OutsideAnswer, signal: AbortSignal) => Promise<T>;

const redirectsMax = 3;
/** Calls that may be under way, and calls that may wait. */
const callsMax = 4;
const queueMax = 64;
const attemptsMax = 2;
/** Calls that may start each second. */
const ratePerSecond = 10;
/** The longest body of an answer to a question, in bytes. */
const bytesMax = 8 * 1_048_576;

/**
 * Client for one external host: bounds calls at once, calls a second and time, has a circuit
 * breaker and a cache, and follows no redirect to another host.
 */
export class OutsideHost {
  readonly name: string;
  readonly #base: URL;
  readonly #options: OutsideHostOptions;
  readonly #clock: Clock;
  readonly #bucket: Bucket;
  readonly #calls: Outbound;
  /** Until this time the host has asked for no more calls. */
  #quietUntil = -Infinity;
  readonly #kept = new BoundedMap<string, CachedAnswer>({
    countMax: 6_000,
    bytesMax: 32 * 1_048_576,
    bytesOf: ({ bytes }) => bytes,
  });
  /** Questions under way; the lane bounds how many can wait. */
  readonly #flights = new SingleFlight<unknown>();

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

  get cacheStats(): { readonly answers: number; readonly bytes: number; readonly flights: number } {
    return { answers: this.#kept.size, bytes: this.#kept.bytes, flights: this.#flights.size };
  }

  /**
   * The answer to a question; undefined for a 404. Concurrent callers with the same question share
   * one call. If it fails, an old answer is given.
   */
  async ask<T>(question: OutsideQuestion<T>): Promise<T | undefined> {
    const { signal, freshMs, path, query = {} } = question;
    signal?.throwIfAborted();
    const key = JSON.stringify([path, Object.entries(query).sort()]);
    const known = this.#kept.get(key);
    if (known !== undefined && this.#clock.now() - known.checkedAt < freshMs) {
      return known.value as T;
    }
    const fetching = () => this.#fetch(key, question);
    return (await this.#flights.run(key, fetching, { signal })) as T | undefined;
  }

  async #fetch(key: string, { path, query, parse }: OutsideQuestion<unknown>): Promise<unknown> {
    const old = this.#kept.get(key);
    const headers = old?.etag === undefined ? {} : { 'if-none-match': old.etag };
    try {
      return await this.get({ path, query, headers }, (answer) => this.#accept(key, answer, parse));
    } catch (error) {
      if (old !== undefined && error instanceof SpillwayError && error.retryable) return old.value;
      throw error;
    }
  }

  async #accept(
    key: string,
    answer: OutsideAnswer,
    parse: (body: Buffer) => unknown,
  ): Promise<unknown> {
    const { statusCode, headers } = answer;
    this.#options.note?.(headers);
    const checkedAt = this.#clock.now();
    const old = this.#kept.get(key);
    if (statusCode === 304 && old !== undefined) {
      this.#kept.set(key, { ...old, checkedAt });
      return old.value;
    }
    if (statusCode === 404 || statusCode === 410) return undefined;
    if (statusCode !== 200) throw this.#refusal(answer);
    const body = await readBytes(answer);
    const etag = typeof headers.etag === 'string' ? headers.etag : undefined;
    try {
      const value = parse(body);
      const length = typeof value === 'string' ? value.length : body.length;
      this.#kept.set(key, { value, bytes: key.length + 2 * length, etag, checkedAt });
      return value;
    } catch (error) {
      throw this.#failure('answers what nobody can read', error);
    }
  }

  #refusal({ statusCode, headers }: OutsideAnswer): SpillwayError {
    const isLimit = statusCode === 429 || headers['x-ratelimit-remaining'] === '0';
    const askedMs = retryAfterMsIn(headers);
    if (!isLimit && askedMs === undefined) {
      return fleetError('OUTSIDE_REFUSED', `${this.name} answers ${statusCode}`);
    }
    // Calls are refused at once until the host wants them again.
    const retryAfterMs = Math.min(askedMs ?? 60_000, 3_600_000);
    this.#quietUntil = Math.max(this.#quietUntil, this.#clock.now() + retryAfterMs);
    this.#bucket.slow();
    return this.#limited(retryAfterMs);
  }

  /** Makes a call, and once more if the network or the host failed. */
  get<T>(call: OutsideCall, read: ReadAnswer<T>): Promise<T> {
    const url = this.#address(call);
    const retryAfterMs = this.#quietUntil - this.#clock.now();
    if (retryAfterMs > 0) return Promise.reject(this.#limited(retryAfterMs));
    const ask = (signal: AbortSignal) => this.#ask(url, call, read, signal);
    return this.#calls.run(ask, { signal: call.signal });
  }

  #limited(retryAfterMs: number): SpillwayError {
    return fleetError('OUTSIDE_LIMITED', `${this.name} wants less`, { retryAfterMs });
  }

  #address({ path, query = {} }: OutsideCall): URL {
    // A part of dots would lead up, and an empty one to another host.
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
        if (!URL.canParse(location, at.href)) throw this.#failure('sends nowhere');
        at = this.#inside(new URL(location, at));
      }
      throw this.#failure('redirects without end');
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof SpillwayError) throw error;
      throw this.#failure('cannot be reached', error);
    }
  }

  async #read<T>(answer: OutsideAnswer, read: ReadAnswer<T>, signal: AbortSignal): Promise<T> {
    try {
      if (answer.statusCode >= 500) throw this.#failure(`answers ${answer.statusCode}`);
      return await read(answer, signal);
    } finally {
      // This does nothing if the body was read to its end.
      answer.body.on('error', () => {}).destroy();
    }
  }

  /** A failure of the host. */
  #failure(what: string, cause?: unknown): SpillwayError {
    return fleetError('OUTSIDE_FAILED', `${this.name} ${what}`, { cause });
  }
}

/** All of a body, if it is not too long. */
async function readBytes({ body, headers }: OutsideAnswer): Promise<Buffer> {
  const tooLong = () => fleetError('OUTSIDE_FAILED', `an answer has more than ${bytesMax} bytes`);
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw tooLong();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** True for failures of the host; a rate limit or a refused redirect is none. */
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
    // The deadlines bound calls that a host accepts and does not answer.
    connections: 8,
  });
}
