import { createHash, type Hash, randomUUID } from 'node:crypto';
import { type FileHandle, link, open, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import fastifyMultipart, { type MultipartFile } from '@fastify/multipart';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { fastifyPlugin } from 'fastify-plugin';
import { SpillwayError } from 'spillway';
import { check, checkInteger, syncFolder, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { refuseBody } from '../request/unread-body.ts';

/**
 * Prepares a scope whose routes call `receive` or `receiveForm`: bodies are left unread for the
 * handler, and an answer given before a body's end closes the connection.
 */
export const uploads: FastifyPluginAsync = fastifyPlugin(
  async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    await app.register(fastifyMultipart);
    app.addHook('onRoute', (route) => {
      // The handler says how long a body may be when it receives it.
      route.bodyLimit ??= Number.MAX_SAFE_INTEGER;
      route.config = { bodyTypes: 'any', ...route.config };
    });
    app.addHook('onSend', async (_request, reply) => refuseBody(reply));
  },
  { name: 'spillway-uploads', fastify: '5.x' },
);

export interface ReceiveOptions {
  /** Longest body, or all files of a form together, in bytes. An integer from 1. */
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
 * Makes the body the file at `path`, whole or not at all, in constant memory: when this resolves it
 * is on disk and has replaced an older file. The route must be in a scope with `uploads`.
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
  try {
    const { temporary, ...file } = await stage(body, path, options);
    await commit([{ ...file, temporary }]);
    return file;
  } catch (error) {
    throw diskError(error);
  }
}

/** A file in a form, before it is taken. */
export interface FormFile {
  readonly field: string;
  /** Name that the client gave: never to be trusted as a path. */
  readonly filename: string;
  readonly type: string;
}

export interface ReceiveFormOptions extends ReceiveOptions {
  /** Gives the path of a file; called before its bytes are read. */
  readonly place: (file: FormFile) => string;
  /** Most files of a form. An integer from 0. @default 10 */
  readonly filesMax?: number | undefined;
  /** Most other fields of a form. An integer from 0. @default 100 */
  readonly fieldsMax?: number | undefined;
}

/** The fields and files of a form that was received. */
export interface ReceivedForm {
  readonly files: readonly (FormFile & Received)[];
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

const fieldBytesMax = 65_536;

/**
 * Reads a `multipart/form-data` body. Its files are put in place when all of it has come; if
 * anything fails, none is, and older files are as they were. (A crash while several files are put
 * in place can leave some of them.)
 */
export async function receiveForm(
  request: FastifyRequest,
  options: ReceiveFormOptions,
): Promise<ReceivedForm> {
  const { bytesMax, signal, filesMax = 10, fieldsMax = 100 } = options;
  checkInteger('bytesMax', bytesMax, 1);
  checkInteger('filesMax', filesMax, 0);
  checkInteger('fieldsMax', fieldsMax, 0);
  if (!request.isMultipart()) throw httpError('BODY_TYPE', 'multipart/form-data is taken');
  const fields: { name: string; value: string }[] = [];
  const files: (FormFile & Staged)[] = [];
  const limits = {
    fileSize: Number.POSITIVE_INFINITY,
    fieldSize: fieldBytesMax,
    files: filesMax,
    fields: fieldsMax,
    parts: filesMax + fieldsMax,
  };
  const parts = request.parts({ limits });
  let left = bytesMax;
  try {
    for (;;) {
      const { value: part, done } = await untilAborted(parts.next(), signal);
      if (done) break;
      if (part.type === 'field') {
        if (part.valueTruncated) throw tooLarge(fieldBytesMax);
        fields.push({ name: part.fieldname, value: String(part.value) });
        continue;
      }
      const file = await stageFile(part, options, left);
      files.push(file);
      left -= file.bytes;
    }
  } catch (error) {
    await Promise.all(files.map(({ temporary }) => remove(temporary)));
    throw formError(error);
  }
  try {
    await commit(files);
  } catch (error) {
    throw diskError(error);
  }
  return { fields, files: files.map(({ temporary, ...file }) => file) };
}

async function stageFile(
  part: MultipartFile,
  { place, bytesMax, signal }: ReceiveFormOptions,
  left: number,
): Promise<FormFile & Staged> {
  const file = { field: part.fieldname, filename: part.filename, type: part.mimetype };
  try {
    return { ...file, ...(await stage(part.file, place(file), { bytesMax: left, signal })) };
  } catch (error) {
    part.file.destroy();
    throw Object(error).code === 'BODY_TOO_LARGE' ? tooLarge(bytesMax) : diskError(error);
  }
}

/** A file that is whole and on disk, under a temporary name in its folder. */
interface Staged extends Received {
  readonly temporary: string;
}

/** Writes all of a body into a temporary file, which is removed if this rejects. */
async function stage(
  body: Readable,
  path: string,
  { bytesMax, signal }: ReceiveOptions,
): Promise<Staged> {
  signal?.throwIfAborted();
  const temporary = besides(path, 'part');
  const handle = await open(temporary, 'wx');
  const hash = createHash('sha256');
  try {
    const bytes = await write(body, handle, hash, { bytesMax, signal });
    await handle.sync();
    await handle.close();
    return { path, temporary, bytes, sha256: hash.digest('hex') };
  } catch (error) {
    await handle.close().catch(() => {});
    await remove(temporary);
    throw error;
  }
}

/** Gives all files their names, or none; durable when this resolves. */
async function commit(files: readonly Staged[]): Promise<void> {
  const placed: { readonly path: string; readonly previous: string | undefined }[] = [];
  try {
    for (const { path, temporary } of files) {
      // One rename is all or nothing by itself. For several, older files are kept to be put back.
      const previous = files.length > 1 ? await keepPrevious(path) : undefined;
      try {
        await rename(temporary, path);
      } catch (error) {
        if (previous !== undefined) await remove(previous);
        throw error;
      }
      placed.push({ path, previous });
    }
    for (const folder of new Set(files.map(({ path }) => dirname(path)))) await syncFolder(folder);
  } catch (error) {
    // A single file has replaced the older one, of which nothing is left to put back.
    for (const { path, previous } of files.length > 1 ? placed.reverse() : []) {
      await (previous === undefined ? remove(path) : rename(previous, path).catch(() => {}));
    }
    await Promise.all(files.map(({ temporary }) => remove(temporary)));
    throw error;
  }
  await Promise.all(placed.map(({ previous }) => previous !== undefined && remove(previous)));
}

async function keepPrevious(path: string): Promise<string | undefined> {
  const previous = besides(path, 'old');
  try {
    await link(path, previous);
    return previous;
  } catch (error) {
    if (Object(error).code === 'ENOENT') return undefined;
    throw error;
  }
}

function besides(path: string, extension: string): string {
  return join(dirname(path), `.${randomUUID()}.${extension}`);
}

async function remove(path: string): Promise<void> {
  await unlink(path).catch(() => {});
}

async function write(
  body: Readable,
  handle: FileHandle,
  hash: Hash,
  { bytesMax, signal }: ReceiveOptions,
): Promise<number> {
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

function formError(error: unknown): unknown {
  if (error instanceof SpillwayError) return error;
  const { code, statusCode, message } = Object(error);
  if (statusCode === 413) return httpError('BODY_TOO_LARGE', message, { cause: error });
  const isMalformed = statusCode < 500 || code === undefined;
  if (!(error instanceof Error) || !isMalformed) return error;
  return httpError('BODY_INVALID', message, { cause: error });
}
