import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { BoundedMap, type Clock, Gate, type Lane, SingleFlight } from 'spillway';
import { rankerError } from '../errors.ts';
import type { Fetcher } from '../fetching/fetcher.ts';
import { imageType } from '../fetching/image-type.ts';
import { UnavailableError } from '../fetching/unavailable.ts';

export interface ImagesOptions {
  readonly fetcher: Pick<Fetcher, 'fetchImage'>;
  /** Signs addresses, so that only those are fetched that a page of the reader has shown. */
  readonly key: string;
  /** The folder of the cache. @default nothing is kept */
  readonly folder?: string | undefined;
  /** The bytes kept there, all pictures together. An integer from 1. @default 512 MiB */
  readonly bytesMax?: number | undefined;
  readonly clock: Clock;
}

/** The time for which a picture that failed is not fetched again, in milliseconds. */
const failureMs = 10 * 60_000;
/** The same for all pictures of a host that was too slow: a browser waits for each of them. */
const slowHostMs = 60_000;
const failuresMax = 10_000;
/** Pictures that are fetched at a time for one user, and that may wait. */
const turns = { limit: 8, queueMax: 32 };

interface Failure {
  readonly why: UnavailableError;
  readonly at: number;
}

/** Pictures of articles. The server fetches them, so that a browser asks no other server. */
export class Images {
  readonly #options: ImagesOptions;
  readonly #bytesMax: number;
  /** Bytes by file name, the least recently used first. */
  readonly #files = new Map<string, number>();
  #bytes = 0;
  readonly #loading = new SingleFlight<Uint8Array>();
  /** By user, while pictures are fetched for them. */
  readonly #turns = new Map<string, Gate>();
  readonly #failures = new BoundedMap<string, Failure>({ countMax: failuresMax });

  /** Makes the folder if there is none, and finds what is kept in it. */
  static async open(options: ImagesOptions): Promise<Images> {
    const images = new Images(options);
    await images.#find();
    return images;
  }

  private constructor(options: ImagesOptions) {
    this.#options = options;
    this.#bytesMax = options.bytesMax ?? 512 * 1_048_576;
  }

  get stats(): { readonly kind: 'images'; readonly files: number; readonly bytes: number } {
    return { kind: 'images', files: this.#files.size, bytes: this.#bytes };
  }

  /** The path of a picture on this server, for one user. */
  path(url: string, userId: string): string {
    const signature = this.#sign(url, userId).toString('base64url');
    return `/reader/images/${signature}?u=${encodeURIComponent(url)}`;
  }

  /** True if this server has shown the address to the user under this signature. */
  isSigned(url: string, userId: string, signature: string): boolean {
    const given = Buffer.from(signature, 'base64url');
    const own = this.#sign(url, userId);
    return given.length === own.length && timingSafeEqual(given, own);
  }

  /** The bytes of a picture; rejects with `ARTICLE_UNAVAILABLE` and the reason. */
  async read(url: string, userId: string, signal: AbortSignal): Promise<Uint8Array> {
    const name = createHash('sha256').update(url).digest('hex');
    const load = () => this.#loading.run(name, () => this.#load(url, name, userId), { signal });
    if (this.#files.has(name)) return await load();
    const gate = this.#turns.get(userId) ?? new Gate(turns);
    this.#turns.set(userId, gate);
    try {
      return await gate.run(load, { signal });
    } finally {
      const { inside, waiting } = gate.stats;
      if (inside + waiting === 0) this.#turns.delete(userId);
    }
  }

  #sign(url: string, userId: string): Buffer {
    const signed = createHmac('sha256', this.#options.key).update(`image ${userId} ${url}`);
    return signed.digest().subarray(0, 16);
  }

  async #load(url: string, name: string, key: string): Promise<Uint8Array> {
    const { fetcher } = this.#options;
    const kept = await this.#kept(name);
    if (kept !== undefined) return kept;
    const { host } = new URL(url);
    this.#checkFailure(name, failureMs);
    this.#checkFailure(host, slowHostMs);
    const bytes = await fetcher.fetchImage(url, { key }).catch((why) => {
      if (why instanceof UnavailableError) this.#noteFailure(why, name, host);
      throw why;
    });
    await this.#keep(name, bytes);
    return bytes;
  }

  #noteFailure(why: UnavailableError, name: string, host: string): void {
    const failure = { why, at: this.#options.clock.now() };
    this.#failures.set(name, failure);
    if (why.reason === 'timeout') this.#failures.set(host, failure);
  }

  #checkFailure(key: string, forMs: number): void {
    const failure = this.#failures.get(key);
    // A clock that jumps back must not make the pause longer.
    const isOver =
      failure === undefined || Math.abs(this.#options.clock.now() - failure.at) >= forMs;
    if (!isOver) throw failure.why;
  }

  async #kept(name: string): Promise<Uint8Array | undefined> {
    const { folder } = this.#options;
    const bytes = this.#files.get(name);
    if (folder === undefined || bytes === undefined) return undefined;
    this.#files.delete(name);
    this.#files.set(name, bytes);
    // A folder that somebody has emptied is filled again.
    return await readFile(join(folder, name)).catch(() => undefined);
  }

  /** Keeps a picture if it can: a full disk costs the cache, not the picture. */
  async #keep(name: string, bytes: Uint8Array): Promise<void> {
    const { folder } = this.#options;
    if (folder === undefined || bytes.length > this.#bytesMax) return;
    const path = join(folder, name);
    try {
      await writeFile(`${path}.new`, bytes);
      await rename(`${path}.new`, path);
    } catch {
      await rm(`${path}.new`, { force: true });
      return;
    }
    this.#bytes += bytes.length - (this.#files.get(name) ?? 0);
    this.#files.set(name, bytes.length);
    await this.#trim();
  }

  async #trim(): Promise<void> {
    const { folder = '' } = this.#options;
    for (const [name, bytes] of this.#files) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#files.delete(name);
      this.#bytes -= bytes;
      await rm(join(folder, name), { force: true });
    }
  }

  async #find(): Promise<void> {
    const { folder } = this.#options;
    if (folder === undefined) return;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const found: { readonly name: string; readonly size: number; readonly at: number }[] = [];
    for (const name of await readdir(folder)) {
      // A file that was being written when the process ended.
      if (/^[\da-f]{64}\.new$/.test(name)) await rm(join(folder, name), { force: true });
      if (!/^[\da-f]{64}$/.test(name)) continue;
      const { size, mtimeMs } = await stat(join(folder, name));
      found.push({ name, size, at: mtimeMs });
    }
    for (const { name, size } of found.sort((one, other) => one.at - other.at)) {
      this.#files.set(name, size);
      this.#bytes += size;
    }
    await this.#trim();
  }
}

const query = {
  type: 'object',
  required: ['u'],
  properties: { u: { type: 'string', maxLength: 4_096 } },
} as const;

/** Serves pictures under the addresses that pages of the reader show. */
export function imageRoutes(app: FastifyInstance, images: Images, lane: Lane): void {
  app.get<{ Params: { signature: string }; Querystring: { u: string } }>(
    '/reader/images/:signature',
    { schema: { querystring: query }, config: { lane } },
    async (request, reply) => {
      const { u: url } = request.query;
      const { id } = request.rankerUser;
      if (!images.isSigned(url, id, request.params.signature)) {
        throw rankerError('RECORD_UNKNOWN', 'no page of this reader has shown this picture');
      }
      const bytes = await images.read(url, id, request.permit.signal);
      const type = imageType(bytes)?.type ?? 'application/octet-stream';
      return reply
        .headers({
          'content-type': type,
          'cache-control': 'private, max-age=604800, immutable',
          // Opened as a page of its own, it can run nothing, whatever its bytes are.
          'content-security-policy': "default-src 'none'; sandbox",
          'content-disposition': 'inline; filename="picture"',
          'cross-origin-resource-policy': 'same-origin',
        })
        .send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    },
  );
}
