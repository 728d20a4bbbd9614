import { randomUUID } from 'node:crypto';
import { createWriteStream, openAsBlob } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { S3mini } from 's3mini';
import { Retry, SpillwayError } from 'spillway';
import { check, checkNumber, untilAborted } from 'spillway/internal';
import { type IngestErrorCode, ingestError } from '../errors.ts';
import {
  byPath,
  checkFolderPath,
  type Folder,
  type FolderFile,
  firstOf,
  folderError,
  type HeldFile,
} from './folder.ts';

export interface S3FolderOptions {
  /** The address of the bucket, path style: `https://s3.eu-west-1.amazonaws.com/trades`. */
  readonly endpoint: string;
  /** Prefix of every path, without slashes at its ends. @default none */
  readonly prefix?: string | undefined;
  /** @default 'us-east-1' */
  readonly region?: string | undefined;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Time for one request, in ms, from 1. @default 60,000 */
  readonly requestMsMax?: number | undefined;
  /** Directory for copies and unfinished files. @default the directory for temporary files */
  readonly scratchParent?: string | undefined;
}

const listMax = 1_000_000;
/** Part size of multipart uploads, for files above it. */
const partBytes = 8 * 2 ** 20;

/** A bucket of an S3-compatible server, where uploads are atomic. */
export class S3Folder implements Folder {
  readonly place: string;
  readonly scratch: string;
  readonly #bucket: S3mini;
  readonly #prefix: string;

  private constructor(options: S3FolderOptions, scratch: string) {
    const { endpoint, prefix = '', region = 'us-east-1', requestMsMax = 60_000 } = options;
    const { accessKeyId, secretAccessKey } = options;
    this.place = prefix === '' ? endpoint : `${endpoint}/${prefix}`;
    this.scratch = scratch;
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
    this.#bucket = new S3mini({
      accessKeyId,
      secretAccessKey,
      endpoint,
      region,
      requestAbortTimeout: requestMsMax,
      minPartSize: partBytes,
    });
  }

  /** Rejects unless the bucket is there and may be read. */
  static async open(options: S3FolderOptions): Promise<S3Folder> {
    const { endpoint, prefix = '', requestMsMax = 60_000, scratchParent = tmpdir() } = options;
    check(URL.canParse(endpoint), 'endpoint', 'the address of a bucket', endpoint);
    if (prefix !== '') checkFolderPath(prefix);
    checkNumber('requestMsMax', requestMsMax, 1, 2 ** 31);
    for (const name of ['accessKeyId', 'secretAccessKey'] as const) {
      check(options[name] !== '', name, 'the key', '');
    }
    const scratch = await mkdtemp(join(scratchParent, 'spillway-bucket-'));
    const folder = new S3Folder(options, scratch);
    try {
      const page = await folder.#ask('', () => folder.#bucket.listObjectsPaged('/', prefix, 1));
      if (page !== null) return folder;
      throw ingestError('FOLDER_MISSING', `${endpoint}: there is no such bucket`);
    } catch (error) {
      await folder[Symbol.asyncDispose]();
      throw error;
    }
  }

  async write(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#ask(path, (key) => this.#bucket.putAnyObject(key, bytes), signal);
  }

  /**
   * Atomic if the server supports `If-None-Match`. Otherwise two processes may both succeed in
   * creating the same file at the same moment, so they must hold a lease.
   */
  async create(path: string, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    const exists = (key: string) => this.#bucket.objectExists(key);
    if (await this.#ask(path, exists, signal)) return false;
    const ifNone = { 'if-none-match': '*' } as Readonly<Record<string, string>>;
    const put = async (key: string): Promise<boolean> => {
      try {
        await this.#bucket.putObject(key, bytes, undefined, undefined, ifNone);
        return true;
      } catch (error) {
        const status = statusOf(error);
        if (status === 409 || status === 412) return false;
        // Older servers do not support the condition.
        if (status !== 404 && status !== 501) throw error;
        await this.#bucket.putObject(key, bytes);
        return true;
      }
    };
    // Not repeated: if only the answer was lost, a second attempt would find the file.
    return await this.#ask(path, put, signal, 1);
  }

  async adopt(file: string, path: string, signal?: AbortSignal): Promise<void> {
    const put = async (key: string) => this.#bucket.putAnyObject(key, await openAsBlob(file));
    await this.#ask(path, put, signal);
    await rm(file, { force: true });
  }

  async read(path: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const get = (key: string) => this.#bucket.getObjectArrayBuffer(key);
    const bytes = await this.#ask(path, get, signal);
    if (bytes === null) throw this.#missing(path);
    return new Uint8Array(bytes);
  }

  async hold(path: string, signal?: AbortSignal): Promise<HeldFile> {
    // Keeps the path below its own directory, as readers take columns from directory names.
    const own = join(this.scratch, randomUUID());
    const copy = join(own, path);
    const discard = () => rm(own, { recursive: true, force: true });
    const get = async (key: string): Promise<boolean> => {
      const answer = await this.#bucket.getObjectResponse(key);
      if (answer?.body == null) return false;
      await mkdir(dirname(copy), { recursive: true });
      await pipeline(Readable.fromWeb(answer.body as never), createWriteStream(copy));
      return true;
    };
    const getFrom = async (name: string): Promise<void> => {
      if (!(await this.#ask(name, get, signal))) throw this.#missing(path);
    };
    try {
      await firstOf(path.startsWith('table/') ? [path, `${path}.new`, path] : [path], getFrom);
      return { path: copy, [Symbol.asyncDispose]: discard };
    } catch (error) {
      await discard();
      throw folderError(copy, error);
    }
  }

  async settle(waiting: readonly string[], gone: readonly string[]): Promise<void> {
    for (const path of waiting) {
      const move = async (key: string): Promise<void> => {
        if (await this.#bucket.objectExists(`${key}.new`)) {
          await this.#bucket.moveObject(`${key}.new`, key);
        }
      };
      await this.#ask(path, move);
    }
    for (const path of gone) await this.delete(path);
  }

  async list(under: string, signal?: AbortSignal): Promise<readonly FolderFile[]> {
    const listing = (key: string) => this.#bucket.listObjects('/', `${key}/`, listMax + 1);
    const objects = (await this.#ask(under, listing, signal)) ?? [];
    if (objects.length > listMax) {
      throw ingestError('FOLDER_FAILED', `${this.place}/${under}: more than ${listMax} files`);
    }
    const files = objects.map(({ Key, Size }) => {
      return { path: Key.slice(this.#prefix.length), bytes: Number(Size) };
    });
    return files.sort(byPath);
  }

  async delete(path: string, signal?: AbortSignal): Promise<void> {
    await this.#ask(path, (key) => this.#bucket.deleteObject(key), signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.scratch, { recursive: true, force: true });
  }

  #missing(path: string): SpillwayError {
    return ingestError('FOLDER_MISSING', `${this.place}/${path}: there is no such file`);
  }

  /** Runs a request with retries; requests are idempotent. */
  async #ask<T>(
    path: string,
    request: (key: string) => Promise<T>,
    signal?: AbortSignal,
    attemptsMax = 4,
  ): Promise<T> {
    if (path !== '') checkFolderPath(path);
    const key = `${this.#prefix}${path}`;
    const attempt = async (within: AbortSignal): Promise<T> => {
      try {
        return await untilAborted(request(key), within);
      } catch (error) {
        within.throwIfAborted();
        throw this.#error(path, error);
      }
    };
    return await new Retry({ attemptsMax }).run(attempt, { signal });
  }

  #error(path: string, error: unknown): unknown {
    if (error instanceof SpillwayError) return error;
    const status = statusOf(error);
    const isBusy = status === undefined || status === 429 || status >= 500;
    const code = codes[status ?? 0] ?? (isBusy ? 'FOLDER_UNREACHABLE' : 'FOLDER_FAILED');
    const why = error instanceof Error ? error.message : String(error);
    return ingestError(code, `${this.place}/${path}: ${why}`, { cause: error });
  }
}

const codes: Readonly<Record<number, IngestErrorCode>> = {
  403: 'FOLDER_READ_ONLY',
  404: 'FOLDER_MISSING',
  507: 'FOLDER_FULL',
};

function statusOf(error: unknown): number | undefined {
  const status = error instanceof Error && 'status' in error ? error.status : undefined;
  return typeof status === 'number' ? status : undefined;
}
