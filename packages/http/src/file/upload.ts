import { createHash, type Hash, randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import fastifyMultipart from '@fastify/multipart';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { SpillwayError } from 'spillway';
import { check, checkInteger, syncFolder, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';
import { refuseBody } from '../request/unread-body.ts';

/**
 * Prepares a scope whose routes call `receive`, or read the parts of a form one by one
 * (`request.parts()` of @fastify/multipart): bodies are left unread for the handler, and an answer
 * given before a body's end closes the connection.
 */
export const uploads: FastifyPluginAsync = plugin('uploads', async (app) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  await app.register(fastifyMultipart);
  app.addHook('onRoute', (route) => {
    // The handler says how long a body may be when it receives it.
    route.bodyLimit ??= Number.MAX_SAFE_INTEGER;
    route.config = { bodyTypes: 'any', ...route.config };
  });
  app.addHook('onSend', async (_request, reply) => refuseBody(reply));
});

export interface ReceiveOptions {
  /** Longest body, in bytes. An integer from 1. */
  readonly bytesMax: number;
  /** Stops receiving; bytes that have come are removed. @default none */
  readonly signal?: AbortSignal | undefined;
}

/** A file that has come whole. */
export interface Received {
  readonly path: string;
  readonly bytes: number;
  /** SHA-256 of its bytes, in hexadecimal. */
  readonly sha256: string;
}

/**
 * Stores the body as the file at `path`, whole or not at all, in constant memory. Once it resolves,
 * the file is on disk and has replaced an older one. The route must be in a scope with `uploads`.
 */
export async function receive(
  request: FastifyRequest,
  path: string,
  options: ReceiveOptions,
): Promise<Received> {
  // Fastify gives no body for a form or for nothing: the bytes are in the raw request.
  const { body = request.raw } = request;
  check(body instanceof Readable, 'body', 'unparsed: register `uploads` in its scope', body);
  checkInteger('bytesMax', options.bytesMax, 1);
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > options.bytesMax) throw tooLarge(options.bytesMax);
  const temporary = join(dirname(path), `.${randomUUID()}.part`);
  try {
    const file = await stage(body, temporary, options);
    await rename(temporary, path);
    await syncFolder(dirname(path));
    return { path, ...file };
  } catch (error) {
    await unlink(temporary).catch(() => {});
    throw diskError(error);
  }
}

/** Writes all of a body into a new file, and returns once it is on disk. */
async function stage(body: Readable, path: string, options: ReceiveOptions) {
  options.signal?.throwIfAborted();
  const handle = await open(path, 'wx');
  const hash = createHash('sha256');
  try {
    const bytes = await write(body, handle, hash, options);
    await handle.sync();
    return { bytes, sha256: hash.digest('hex') };
  } finally {
    await handle.close();
  }
}

async function write(body: Readable, handle: FileHandle, hash: Hash, options: ReceiveOptions) {
  const { bytesMax, signal } = options;
  // The iterator is never returned: that would cut the connection before the answer.
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

function tooLarge(bytesMax: number): SpillwayError {
  return httpError('BODY_TOO_LARGE', `at most ${bytesMax} bytes are taken`);
}

/** Names a broken connection, which Node reports in several ways; an abort keeps its reason. */
function broken(cause: unknown): never {
  const code = Object(cause).code;
  const isBroken = code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE';
  throw isBroken ? httpError('BODY_INVALID', 'the body ended early', { cause }) : cause;
}

function diskError(error: unknown): unknown {
  const code = Object(error).code;
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error;
  return httpError('DISK_FULL', 'there is no room for this upload', { cause: error });
}
