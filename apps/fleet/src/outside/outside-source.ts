import { BoundedMap, type Clock, SingleFlight, SpillwayError } from 'spillway';
import { retryAfterMsIn } from 'spillway/internal';
import { fleetError } from '../errors.ts';
import type { OutsideAnswer, OutsideCall, OutsideHost } from './outside-host.ts';

/** An answer from outside, with what it takes to ask whether it is still true. */
interface CachedAnswer {
  readonly value: unknown;
  /** Approximate size in memory, in bytes. */
  readonly bytes: number;
  readonly etag: string | undefined;
  /** Time at which it was last known to be true. */
  readonly checkedAt: number;
}

export interface OutsideQuestion<T> extends OutsideCall {
  /** Time for which an answer is true without asking again, in milliseconds; from 0. */
  readonly freshMs: number;
  /** Makes the value of a body; what it throws speaks against the host. */
  readonly parse: (body: Buffer) => T;
}

export interface OutsideSourceOptions {
  readonly host: OutsideHost;
  /** Called with the headers of each answer. @default nobody listens */
  readonly note?: ((headers: OutsideAnswer['headers']) => void) | undefined;
  readonly clock: Clock;
}

/** The longest body that is taken, in bytes. */
const bytesMax = 8 * 1_048_576;

/** Cache of a host's answers, asked for no more often than needed; undefined for a 404. */
export class OutsideSource {
  readonly #options: OutsideSourceOptions;
  readonly #clock: Clock;
  readonly #cache = new BoundedMap<string, CachedAnswer>({
    countMax: 6_000,
    bytesMax: 32 * 1_048_576,
    bytesOf: ({ bytes }) => bytes,
  });
  /** Calls under way; the host's lane bounds how many can wait. */
  readonly #flights = new SingleFlight<unknown>();

  constructor(options: OutsideSourceOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  get stats(): { readonly answers: number; readonly bytes: number; readonly flights: number } {
    return { answers: this.#cache.size, bytes: this.#cache.bytes, flights: this.#flights.size };
  }

  /** Many who ask the same at once wait for one call. If that fails, an old answer will do. */
  async ask<T>(question: OutsideQuestion<T>): Promise<T | undefined> {
    const { signal, freshMs } = question;
    signal?.throwIfAborted();
    const key = keyOf(question);
    const known = this.#cache.get(key);
    const isFresh = known !== undefined && this.#clock.now() - known.checkedAt < freshMs;
    if (isFresh) return known.value as T;
    const fetching = () => this.#fetch(key, question);
    return (await this.#flights.run(key, fetching, { signal })) as T | undefined;
  }

  async #fetch<T>(key: string, question: OutsideQuestion<T>): Promise<unknown> {
    const { path, query, parse } = question;
    const old = this.#cache.get(key);
    const headers = { ...question.headers, ...(old?.etag && { 'if-none-match': old.etag }) };
    try {
      return await this.#options.host.get({ path, query, headers }, async (answer) => {
        return this.#accept(key, answer, parse);
      });
    } catch (error) {
      if (old !== undefined && error instanceof SpillwayError && error.retryable) return old.value;
      throw error;
    }
  }

  async #accept<T>(
    key: string,
    answer: OutsideAnswer,
    parse: (body: Buffer) => T,
  ): Promise<unknown> {
    const { statusCode, headers } = answer;
    this.#options.note?.(headers);
    const checkedAt = this.#clock.now();
    const old = this.#cache.get(key);
    if (statusCode === 304 && old !== undefined) {
      this.#cache.set(key, { ...old, checkedAt });
      return old.value;
    }
    if (statusCode === 404 || statusCode === 410) return undefined;
    if (statusCode !== 200) throw this.#refusal(answer);
    const body = await readBytes(answer);
    const etag = typeof headers.etag === 'string' ? headers.etag : undefined;
    const value = this.#parse(body, parse);
    const length = typeof value === 'string' ? value.length : body.length;
    this.#cache.set(key, { value, bytes: key.length + 2 * length, etag, checkedAt });
    return value;
  }

  #parse<T>(body: Buffer, parse: (body: Buffer) => T): T {
    try {
      return parse(body);
    } catch (error) {
      throw this.#options.host.failure('answers what nobody can read', error);
    }
  }

  #refusal({ statusCode, headers }: OutsideAnswer): SpillwayError {
    const { host } = this.#options;
    const isLimit = statusCode === 429 || headers['x-ratelimit-remaining'] === '0';
    const askedMs = retryAfterMsIn(headers);
    if (!isLimit && askedMs === undefined) {
      return fleetError('OUTSIDE_REFUSED', `${host.name} answers ${statusCode}`);
    }
    return host.limited(Math.min(askedMs ?? 60_000, 3_600_000));
  }
}

function keyOf({ path, query = {} }: OutsideCall): string {
  return JSON.stringify([path, Object.entries(query).sort()]);
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
