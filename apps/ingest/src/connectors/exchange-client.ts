import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { type Clock, type Deadline, deadline, SpillwayError, systemClock } from 'spillway';
import { check, checkInteger, checkNumber, retryAfterMsIn } from 'spillway/internal';
import { type Dispatcher, Pool } from 'undici';
import { ingestError } from '../errors.ts';
import type { ConnectorOptions } from './connector.ts';

export interface ExchangeClientOptions extends ConnectorOptions {
  readonly exchange: string;
  readonly baseUrl: string;
  /** Sent with every request. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Parameters of every request that messages must not show, as `a=b&c=d`. @default none */
  readonly secretQuery?: string | undefined;
  /** Masks secrets in error messages. @default masks nothing */
  readonly hide?: ((text: string) => string) | undefined;
  /** Time between two requests at the permitted rate, in ms. @default 0 */
  readonly askMs?: number | undefined;
  /** Tells whether a refusal means that the product is unknown. */
  readonly isUnknown: (status: number, text: string) => boolean;
}

type Answer = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers' | 'body'>;

/** Time for a first answer, in ms: with the program's start it makes 5 s. */
const firstMsMax = 4_000;
/** Lateness of a timer, in ms, from which on this process counts as busy. */
const lateMs = 100;
const userAgent = 'spillway-ingest/0.1';
const connectionsMax = 256;
/** Largest number of requests in flight; those beyond the connections wait for one. */
export const inFlightMax: number = 2 * connectionsMax;
const unzip = promisify(gunzip);
/** Bytes of a refusal that are read, and characters that a message quotes. */
const refusalBytesMax = 65_536;
const refusalTextMax = 200;
/** Answers with 403 in a row that are retried, if the API has answered before. */
const forbiddenMax = 3;

/** The longest plausible pause, in ms: a month, as for a monthly quota. */
const retryAfterMsMax = 32 * 86_400_000;

/** Finds `.` and `..` in paths. */
export const dots: RegExp = /(^|\/)\.\.?([/?]|$)/;

/** Sends requests to one exchange, and classifies each failure. */
export class ExchangeClient implements AsyncDisposable {
  readonly #options: ExchangeClientOptions;
  readonly #path: string;
  readonly #pool: Pool;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #requestMsMax: number;
  readonly #firstMsMax: number;
  readonly #bytesMax: number;
  readonly #clock: Clock;
  /** True once something has answered as an API does; later failures may be temporary. */
  isReached = false;
  #failedContacts = 0;
  /** Answers with 403 since the last one with 200. */
  #forbidden = 0;
  /** Time of the first request. */
  #firstAt: number | undefined;
  #turns: Promise<void> = Promise.resolve();
  /** Holds one answer of up to 1 MiB, such as a page of trades. */
  readonly #buffer: Buffer = Buffer.allocUnsafeSlow(2 ** 20);

  constructor(options: ExchangeClientOptions) {
    const {
      baseUrl,
      requestMsMax = 30_000,
      bytesMax = 64 * 2 ** 20,
      clock = systemClock,
    } = options;
    const isAddress = URL.canParse(baseUrl) && /^https?:$/.test(new URL(baseUrl).protocol);
    check(isAddress, 'baseUrl', 'an http:// or https:// address', baseUrl);
    checkNumber('requestMsMax', requestMsMax, 1, 2 ** 31 - 1);
    checkInteger('bytesMax', bytesMax, 1);
    const { origin, pathname } = new URL(baseUrl);
    this.#options = options;
    this.#path = pathname.replace(/\/+$/, '');
    // One deadline covers the whole request, so undici's own timeouts are off.
    this.#firstMsMax = options.firstMsMax ?? firstMsMax;
    const timeouts = { headersTimeout: 0, bodyTimeout: 0, connectTimeout: this.#firstMsMax };
    this.#pool = new Pool(origin, { connections: connectionsMax, ...timeouts });
    this.#headers = { 'user-agent': userAgent, 'accept-encoding': 'gzip', ...options.headers };
    this.#requestMsMax = requestMsMax;
    this.#bytesMax = bytesMax;
    this.#clock = clock;
  }

  /**
   * Sends a request, and returns the result of `read` for the unpacked answer. The bytes are valid
   * during the call only, since answers share one buffer unless they are compressed or long. With a
   * buffer for each, garbage collection took a quarter of all processor time (2026-11).
   */
  async get<T>(
    path: string,
    signal: AbortSignal,
    read: (bytes: Buffer, headers: Answer['headers']) => T,
  ): Promise<T> {
    if (dots.test(path.replace(/\?.*/s, ''))) {
      const message = `${this.#options.exchange}: ${path}: no product is called . or ..`;
      throw ingestError('PRODUCT_UNKNOWN', message);
    }
    const failedBefore = this.#failedContacts;
    using limit = deadline(this.#clock, this.#requestMsMax, signal);
    using contact = this.#contact(limit);
    const { secretQuery = '' } = this.#options;
    const rest = secretQuery === '' ? '' : `${path.includes('?') ? '&' : '?'}${secretQuery}`;
    const full = `${this.#path}${path}${rest}`;
    const request = { path: full, method: 'GET' as const, headers: this.#headers };
    try {
      limit.signal.throwIfAborted();
      const answer = await this.#pool.request({ ...request, signal: limit.signal });
      if (answer.statusCode !== 200) throw await this.#refusal(answer, path);
      const chunks = await this.#read(answer, this.#bytesMax, contact);
      await this.#turn();
      const coding = answer.headers['content-encoding'];
      const isPlain = coding === undefined || coding === 'identity';
      const bytes = isPlain ? this.#joined(chunks) : await this.#unpacked(chunks, coding);
      const value = read(bytes, answer.headers);
      this.isReached = true;
      this.#forbidden = 0;
      return value;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const fault = limit.signal.aborted ? limit.signal.reason : error;
      const isOurs = fault instanceof Error && 'retryable' in fault;
      const { message: why = String(fault) } = Object(fault);
      if (fault instanceof RangeError || fault instanceof TypeError) {
        const what = `${this.#placeOf(path)}: an answer that cannot be read: ${why}`;
        throw ingestError('EXCHANGE_CHANGED', what, { cause: fault });
      }
      if (this.#isUnreachable(fault, failedBefore)) throw this.#unreachable(why, fault);
      if (isOurs) throw fault;
      throw ingestError('EXCHANGE_FAILED', `${this.#placeOf(path)}: ${why}`, { cause: fault });
    }
  }

  /**
   * Waits so that one answer is read per turn of the event loop, since each takes a millisecond or
   * two. With a hundred per turn a commit took 0.8 s, as each of its ten steps waits for a turn.
   */
  async #turn(): Promise<void> {
    this.#turns = this.#turns.then(() => setImmediate());
    await this.#turns;
  }

  /** Aborts a request without a first byte in time, unless something has answered before. */
  #contact(limit: Deadline): Disposable | undefined {
    if (this.isReached) return undefined;
    const now = this.#clock.now();
    this.#firstAt ??= now;
    const leftMs = this.#firstAt + this.#firstMsMax - now;
    // A service that starts while the API is slow must not give up each later request early.
    if (leftMs <= 0 && this.#options.goesOn) return undefined;
    let timer: Disposable;
    const listen = (forMs: number): void => {
      const dueAt = this.#clock.now() + forMs;
      timer = this.#clock.after(forMs, () => {
        if (this.isReached) return;
        // This process was busy, and the answer may be waiting in the socket.
        if (this.#clock.now() - dueAt > lateMs) return listen(this.#firstMsMax);
        const why = `it gave no answer within ${this.#firstMsMax} ms (firstAnswerSeconds)`;
        limit.abort(new SpillwayError('DEADLINE', why));
      });
    };
    listen(leftMs > 0 ? leftMs : this.#firstMsMax);
    return { [Symbol.dispose]: () => timer[Symbol.dispose]() };
  }

  /** True if nothing has ever answered, so that the address is probably wrong. */
  #isUnreachable(fault: unknown, failedBefore: number): boolean {
    const { code, retryable = true, retryAfterMs, status } = Object(fault);
    // A clear refusal is an answer, too.
    const isAnswer = !retryable || status === 429 || retryAfterMs !== undefined;
    if (isAnswer && code !== 'DEADLINE') this.isReached = true;
    if (this.isReached) return false;
    // Concurrent failures count as one.
    this.#failedContacts = failedBefore + 1;
    const { askMs = 0, contactsMax = 3 } = this.#options;
    const usedMs = this.#clock.now() - (this.#firstAt ?? 0);
    // Too late for another attempt and its answer.
    const isLate = usedMs + askMs > 0.75 * this.#firstMsMax;
    return this.#failedContacts >= contactsMax || isLate;
  }

  #unreachable(why: string, cause: unknown): Error {
    const { exchange, baseUrl } = this.#options;
    const isAnswer = Object(cause).code === 'EXCHANGE_FAILED';
    const what = isAnswer ? why : `${exchange}: ${baseUrl} cannot be reached: ${why}`;
    // The message of a refusal has address and remedy already.
    const rest = `${what.includes(baseUrl) ? '' : `; ${baseUrl} was asked`}${this.#remedy}`;
    const message = what.endsWith(this.#remedy) ? what : `${what}${rest}`;
    return ingestError('EXCHANGE_UNREACHABLE', message, { cause });
  }

  get #remedy(): string {
    return `; ${this.#options.remedy ?? 'see --base-url'}`;
  }

  /** Names a request in messages: with the address until something has answered. */
  #placeOf(path: string): string {
    const { exchange, baseUrl } = this.#options;
    return `${exchange}: ${this.isReached ? '' : baseUrl}${path}`;
  }

  /** Reads the body; disposes `contact` as soon as some of it is there. */
  async #read(
    { body, headers }: Answer,
    bytesMax: number,
    contact?: Disposable,
  ): Promise<readonly Uint8Array[]> {
    const chunks: Uint8Array[] = [];
    let bytes = Number(headers['content-length'] ?? 0) > bytesMax ? Infinity : 0;
    try {
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        contact?.[Symbol.dispose]();
        bytes += chunk.length;
        if (bytes > bytesMax) throw this.#tooLong(bytesMax);
        chunks.push(chunk);
      }
    } finally {
      // Has no effect on a body that was read to its end.
      body.on('error', () => {}).destroy();
    }
    return chunks;
  }

  #joined(chunks: readonly Uint8Array[]): Buffer {
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    if (length > this.#buffer.length) return Buffer.concat(chunks);
    let end = 0;
    for (const chunk of chunks) {
      this.#buffer.set(chunk, end);
      end += chunk.length;
    }
    return this.#buffer.subarray(0, length);
  }

  #tooLong(bytesMax: number): Error {
    const message = `${this.#options.exchange}: an answer has more than ${bytesMax} bytes`;
    return ingestError('EXCHANGE_CHANGED', message);
  }

  async #unpacked(chunks: readonly Uint8Array[], coding: string | string[]): Promise<Buffer> {
    const { exchange } = this.#options;
    if (!/^(x-)?gzip$/i.test(String(coding))) {
      throw ingestError('EXCHANGE_CHANGED', `${exchange}: content-encoding ${String(coding)}`);
    }
    try {
      return await unzip(Buffer.concat(chunks), { maxOutputLength: this.#bytesMax });
    } catch (cause) {
      if (Object(cause).code === 'ERR_BUFFER_TOO_LARGE') throw this.#tooLong(this.#bytesMax);
      throw ingestError('EXCHANGE_FAILED', `${exchange}: broken gzip`, { cause });
    }
  }

  /** Makes the error for a status other than 200. */
  async #refusal(answer: Answer, path: string): Promise<Error> {
    const { isUnknown, hide = String, pauseMsMax = Infinity } = this.#options;
    const { statusCode: status, headers } = answer;
    const chunks = await this.#read(answer, refusalBytesMax).catch(() => []);
    // Masked before it is cut, as half a secret would not be found.
    const text = hide(Buffer.concat(chunks).toString())
      .replace(/\s+/g, ' ')
      .slice(0, refusalTextMax);
    const { location } = headers;
    const words = location === undefined ? text : `${text} leads to ${hide(String(location))}`;
    const said = `${this.#placeOf(path)}: ${status} ${words.trim()}`.trimEnd();
    const message = `${said}${this.isReached ? '' : this.#remedy}`;
    const wasReached = this.isReached;
    // An API refuses in JSON; anything else may come from a gateway or a wrong address.
    this.isReached ||= /^\s?[[{]/.test(text);
    // 418 is a ban after ignored 429s; some APIs answer 403 with headers of the limit.
    const isSpent = headers['x-ratelimit-remaining'] === '0';
    const isLimit = status === 403 && (isSpent || headers['retry-after'] !== undefined);
    const askedMs = retryAfterMsIn(headers) ?? (isSpent ? resetMsIn(headers) : undefined);
    // A pause of years cannot be meant.
    const retryAfterMs = (askedMs ?? Infinity) > retryAfterMsMax ? undefined : askedMs;
    if (status === 429 || status === 418 || isLimit) {
      const isLong = (retryAfterMs ?? 0) > pauseMsMax;
      const code = isLong ? 'EXCHANGE_PAUSED' : 'EXCHANGE_LIMITED';
      return ingestError(code, said, { retryAfterMs });
    }
    if (status >= 500 || status === 408) {
      return ingestError('EXCHANGE_FAILED', message, { status, retryAfterMs });
    }
    if (isUnknown(status, text)) return ingestError('PRODUCT_UNKNOWN', message);
    // A firewall may answer 403 once; with a revoked key it comes each time.
    if (status === 403 && wasReached && this.#forbidden < forbiddenMax) {
      this.#forbidden += 1;
      return ingestError('EXCHANGE_FAILED', message, { status });
    }
    return ingestError('EXCHANGE_REFUSED', message, { status });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.destroy();
  }
}

/** The time until `x-ratelimit-reset`, a UNIX time in seconds, by the clock of the server. */
function resetMsIn(headers: Answer['headers']): number | undefined {
  const ms = Number(headers['x-ratelimit-reset']) * 1000 - Date.parse(String(headers.date));
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
