import { createHash, type Hash, randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { SpillwayError } from 'spillway';
import { check, checkInteger, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';

export interface ReceiveOptions {
  /** The most it may be, in bytes. An integer from 1. */
  readonly bytesMax: number;
  /** Stops it; what has come is removed. A body that breaks off does so too. @default none */
  readonly signal?: AbortSignal | undefined;
}

/** A file that has come whole. */
export interface Received {
  readonly path: string;
  readonly bytes: number;
  /** Of its bytes, in hexadecimal. */
  readonly sha256: string;
}

/** Whole and on disk, but under another name in the same folder. */
export interface Staged extends Received {
  readonly temporary: string;
}

/**
 * The body becomes the file at `path`, whole or not at all, in constant memory: when this resolves
 * it is on disk, and what was there before is replaced. The route must be in a scope with
 * `uploads`.
 */
export async function receive(
  request: FastifyRequest,
  path: string,
  options: ReceiveOptions,
): Promise<Received> {
  // Of no body Fastify makes nothing, nor of a form: its bytes are there all the same.
  const { body = request.raw } = request;
  check(body instanceof Readable, 'body', 'unparsed: register `uploads` in its scope', body);
  checkInteger('bytesMax', options.bytesMax, 1);
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > options.bytesMax) throw tooLarge(options.bytesMax);
  return commit(await stage(body, path, options));
}

/** Writes it all into a temporary file; nothing is left of that if this rejects. */
export async function stage(
  body: Readable,
  path: string,
  { bytesMax, signal }: ReceiveOptions,
): Promise<Staged> {
  signal?.throwIfAborted();
  const temporary = join(dirname(path), `.${randomUUID()}.part`);
  const handle = await open(temporary, 'wx');
  const hash = createHash('sha256');
  try {
    const bytes = await drain(body, handle, hash, bytesMax, signal);
    await handle.sync();
    await handle.close();
    return { path, temporary, bytes, sha256: hash.digest('hex') };
  } catch (error) {
    await handle.close().catch(() => {});
    await discard({ temporary });
    throw error;
  }
}

/** Gives it its name; durable when this resolves. */
export async function commit(staged: Staged): Promise<Received> {
  const { path, bytes, sha256, temporary } = staged;
  try {
    await rename(temporary, path);
  } catch (error) {
    await discard(staged);
    throw error;
  }
  const folder = await open(dirname(path), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
  return { path, bytes, sha256 };
}

/** Removes what was staged, if it is still there. */
export async function discard({ temporary }: Pick<Staged, 'temporary'>): Promise<void> {
  await unlink(temporary).catch(() => {});
}

async function drain(
  body: Readable,
  handle: FileHandle,
  hash: Hash,
  bytesMax: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  // Never returned: that would destroy the body, and cut the connection before the answer.
  const chunks = body.iterator();
  let bytes = 0;
  for (;;) {
    const next: IteratorResult<Buffer> = await untilAborted(chunks.next(), signal).catch(broken);
    if (next.done) return bytes;
    const chunk = next.value;
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    hash.update(chunk);
    for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten;
  }
}

/** The refusal of a body that is too long. */
export function tooLarge(bytesMax: number): SpillwayError {
  return httpError('BODY_TOO_LARGE', `at most ${bytesMax} bytes are taken`);
}

/** A connection that broke says so in many ways; an abort keeps its own reason. */
function broken(cause: unknown): never {
  const code = Object(cause).code;
  const isBroken = code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE';
  throw isBroken ? httpError('BODY_INVALID', 'the body ended early', { cause }) : cause;
}
