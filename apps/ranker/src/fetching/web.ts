import {
  Bucket,
  type Clock,
  deadline,
  Keyed,
  type KeyedStats,
  Lane,
  type LaneStats,
  Retry,
  SpillwayError,
  systemClock,
} from 'spillway';
import { checkInteger, checkNumber } from 'spillway/internal';
import { Agent, buildConnector, type Dispatcher, request } from 'undici';
import type { AddressGuard } from './address-guard.ts';
import { webUrl } from './canonical-url.ts';
import { acceptedEncodings, readBody } from './read-body.ts';
import { retryAfterMs, statusFailure, wireFailure } from './status-failure.ts';
import { UnavailableError, type Validators } from './unavailable.ts';

/** Limits on the requests to one host. */
export interface Politeness {
  /** Requests each second, above 0. @default 2 */
  readonly ratePerSecond?: number | undefined;
  /** The number that may start together. An integer from 1. @default 4 */
  readonly burst?: number | undefined;
  /** The number that may wait. An integer from 0. @default 16 */
  readonly queueMax?: number | undefined;
  /** The number of hosts remembered; more than can be waited for at once. @default 2_000 */
  readonly hostsMax?: number | undefined;
}

export interface WebOptions {
  readonly guard: AddressGuard;
  readonly politeness?: Politeness | undefined;
  /** From the request to the last byte, redirects included, in ms, from 1. @default 15000 */
  readonly fetchMsMax?: number | undefined;
  /** The longest body, decompressed or not, in bytes, from 1. @default 5 MiB */
  readonly bytesMax?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** A GET request. */
export interface WebQuestion extends FetchOptions {
  readonly url: URL;
  /** The `Accept` header. */
  readonly accept: string;
  /** Throws if a content type, in small letters, is not one of the expected ones. */
  readonly checkType: (type: string) => void;
}

export interface FetchOptions {
  /** The validators of an earlier answer. @default none */
  readonly validators?: Validators | undefined;
  /** Sent to the origin of the address only, not after a redirect to another. @default none */
  readonly credentials?: Credentials | undefined;
  /** The user it is for; users have their turn one after another. @default one for all */
  readonly key?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A header with credentials. */
export interface Credentials {
  readonly header: string;
  readonly value: string;
}

export interface WebAnswer {
  /** The address after redirects. */
  readonly url: string;
  /** The `Content-Type` header; empty without one. */
  readonly type: string;
  /** Undefined if nothing has changed since the validators were given. */
  readonly body: Uint8Array<ArrayBuffer> | undefined;
  readonly validators: Validators;
}

const redirectsMax = 5;
const attemptsMax = 2;
const fetchesMax = 32;
const queueMax = 256;
/** Longest wait for a permit and the host's rate limit, in milliseconds. */
const waitMsMax = 20_000;
/** The longest pause of a host to wait out, in milliseconds. */
const pauseMsMax = 5_000;
/** The honest name of this program: the owner of a site can recognise it and refuse it. */
const userAgent = 'Mozilla/5.0 (compatible; spillway-ranker; personal reader)';

/** The HTTP client for foreign servers: public addresses only, a rate per host, bounded answers. */
export class Web {
  readonly #guard: AddressGuard;
  readonly #hosts: Keyed<Bucket>;
  readonly #fetchMsMax: number;
  readonly #bytesMax: number;
  readonly #clock: Clock;
  readonly #lane: Lane;
  readonly #agent: Agent;
  readonly #stop = new AbortController();

  constructor(options: WebOptions) {
    const { fetchMsMax = 15_000, bytesMax = 5 * 1_048_576, clock = systemClock } = options;
    checkNumber('fetchMsMax', fetchMsMax, 1);
    checkInteger('bytesMax', bytesMax, 1);
    this.#guard = options.guard;
    this.#fetchMsMax = fetchMsMax;
    this.#bytesMax = bytesMax;
    this.#clock = clock;
    const { ratePerSecond = 2, burst = 4, queueMax: waitMax = 16 } = options.politeness ?? {};
    const make = () => new Bucket({ ratePerSecond, burst, queueMax: waitMax, clock });
    const keysMax = options.politeness?.hostsMax ?? 2_000;
    checkInteger('hostsMax', keysMax, 1);
    this.#hosts = new Keyed({ make, keysMax, idleMs: 0, clock });
    const deadlineMs = waitMsMax + fetchMsMax;
    this.#lane = new Lane({
      name: 'web',
      limit: { fixed: fetchesMax },
      queueMax,
      deadlineMs,
      clock,
    });
    // The deadline of a fetch covers these timeouts.
    const times = { headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: 4_000 };
    this.#agent = new Agent({
      ...times,
      connections: 4,
      allowH2: false,
      connect: this.#connector(),
    });
  }

  get stats(): { readonly lane: LaneStats; readonly politeness: KeyedStats } {
    return { lane: this.#lane.stats, politeness: this.#hosts.stats };
  }

  /** Waits for the host's rate limit; rejects with `BUCKET_FULL` or the signal's reason. */
  async takeTurn(host: string, signal: AbortSignal | undefined): Promise<void> {
    const bucket = this.#hosts.for(host);
    const { pausedMs } = bucket.stats;
    if (pausedMs > pauseMsMax) {
      const seconds = Math.ceil(pausedMs / 1000);
      throw new UnavailableError('blocked', `${host} asked to be left alone for ${seconds} s more`);
    }
    await bucket.take(1, { signal });
  }

  /** Rejects with an `UnavailableError`, when busy, or with the signal's reason. */
  get(question: WebQuestion): Promise<WebAnswer> {
    const stop = this.#stop.signal;
    const signal = question.signal ? AbortSignal.any([question.signal, stop]) : stop;
    return this.#lane.run((held) => this.#get(question, held), { signal, key: question.key });
  }

  /** Cancels all requests. */
  async close(): Promise<void> {
    this.#stop.abort(new SpillwayError('LANE_CLOSED', 'no more is fetched'));
    await this.#lane.close();
    await this.#agent.destroy();
  }

  #connector(): buildConnector.connector {
    const { lookup } = this.#guard;
    const connect = buildConnector({ lookup, timeout: this.#fetchMsMax, allowH2: false });
    return (options, callback) => {
      try {
        this.#guard.check(options.hostname);
      } catch (error) {
        callback(error as Error, null);
        return;
      }
      connect(options, callback);
    };
  }

  async #get(question: WebQuestion, signal: AbortSignal): Promise<WebAnswer> {
    await this.takeTurn(question.url.host, signal);
    using limit = deadline(this.#clock, this.#fetchMsMax, signal);
    try {
      const isRetryable = (error: unknown) =>
        error instanceof UnavailableError && error.isWorthAnotherTry;
      const retry = new Retry({ attemptsMax, backoffMs: 500, isRetryable, clock: this.#clock });
      return await retry.run((held) => this.#follow(question, held), limit);
    } catch (error) {
      if (limit.signal.aborted && !signal.aborted) {
        throw new UnavailableError('timeout', `not done within ${this.#fetchMsMax} ms`);
      }
      throw error;
    }
  }

  async #follow(question: WebQuestion, signal: AbortSignal): Promise<WebAnswer> {
    const seen = new Set<string>();
    let { url } = question;
    for (let hop = 0; hop <= redirectsMax; hop += 1) {
      if (seen.has(url.href)) break;
      seen.add(url.href);
      const next = await this.#ask(url, question, signal);
      if (!(next instanceof URL)) return next;
      if (next.host !== url.host) await this.takeTurn(next.host, signal);
      url = next;
    }
    throw new UnavailableError('redirect_loop', `redirects without end, at last to ${url.href}`);
  }

  /** Sends one request; gives the answer, or the address of a redirect. */
  async #ask(url: URL, question: WebQuestion, signal: AbortSignal): Promise<WebAnswer | URL> {
    try {
      const headers = requestHeaders(question);
      const { credentials } = question;
      const isOwn = url.origin === question.url.origin;
      if (credentials && isOwn) headers[credentials.header.toLowerCase()] = credentials.value;
      const answer = await request(url, { dispatcher: this.#agent, headers, signal });
      try {
        return redirection(answer, url) ?? (await this.#read(answer, url, question));
      } finally {
        // This does nothing if the body was read to its end.
        answer.body.on('error', () => {}).destroy();
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof SpillwayError) throw error;
      throw wireFailure(error);
    }
  }

  async #read(
    answer: Dispatcher.ResponseData,
    url: URL,
    { checkType, validators: sent = {} }: WebQuestion,
  ): Promise<WebAnswer> {
    const { statusCode, headers } = answer;
    const validators = { ...(statusCode === 304 && sent), ...validatorsOf(headers) };
    const type = String(headers['content-type'] ?? '');
    const hasSent = sent.etag !== undefined || sent.lastModified !== undefined;
    if (statusCode === 304 && hasSent) return { url: url.href, type, body: undefined, validators };
    const failure = statusFailure(statusCode, headers);
    if (failure?.reason === 'blocked') {
      this.#hosts.for(url.host).slow({ retryAfterMs: retryAfterMs(headers) });
    }
    if (failure !== undefined) throw failure;
    checkType(type.toLowerCase());
    const body = await readBody(answer, this.#bytesMax);
    return { url: url.href, type, body, validators };
  }
}

function requestHeaders({ accept, validators = {} }: WebQuestion): Record<string, string> {
  const { etag, lastModified } = validators;
  return {
    'user-agent': userAgent,
    accept,
    'accept-encoding': acceptedEncodings,
    'accept-language': '*',
    ...(etag !== undefined && { 'if-none-match': etag }),
    ...(lastModified !== undefined && { 'if-modified-since': lastModified }),
  };
}

function redirection({ statusCode, headers }: Dispatcher.ResponseData, from: URL): URL | undefined {
  const { location } = headers;
  if (![301, 302, 303, 307, 308].includes(statusCode)) return undefined;
  // A header arrives as latin1; servers that do not percent-encode an address send UTF-8.
  const place = typeof location === 'string' ? Buffer.from(location, 'latin1').toString() : '';
  const next = place === '' ? undefined : webUrl(place, from.href);
  if (next !== undefined) return next;
  throw new UnavailableError('invalid_url', `${from.href} redirects to ${place || 'nowhere'}`);
}

function validatorsOf({ etag, 'last-modified': modified }: Dispatcher.ResponseData['headers']): {
  etag?: string;
  lastModified?: string;
} {
  return {
    ...(typeof etag === 'string' && { etag }),
    ...(typeof modified === 'string' && { lastModified: modified }),
  };
}
