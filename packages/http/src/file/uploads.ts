import fastifyMultipart, { type MultipartFile, type MultipartValue } from '@fastify/multipart';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { fastifyPlugin } from 'fastify-plugin';
import { SpillwayError } from 'spillway';
import { checkInteger, untilAborted } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { refuseBody } from '../request/unread-body.ts';
import {
  commit,
  discard,
  type Received,
  type ReceiveOptions,
  type Staged,
  stage,
  tooLarge,
} from './upload.ts';

/**
 * For a scope whose routes call `receive` or `receiveForm`: bodies are left unread for the handler,
 * and an answer given before a body's end closes the connection instead of reading the rest.
 */
export const uploads: FastifyPluginAsync = fastifyPlugin(
  async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    await app.register(fastifyMultipart);
    app.addHook('onRoute', (route) => {
      // Whoever receives a body says how long it may be.
      route.bodyLimit ??= Number.MAX_SAFE_INTEGER;
      route.config = { bodyTypes: 'any', ...route.config };
    });
    app.addHook('onSend', async (_request, reply) => refuseBody(reply));
  },
  { name: 'spillway-uploads', fastify: '5.x' },
);

/** A file in a form, before it is taken. */
export interface FormFile {
  /** The name of its field. */
  readonly field: string;
  /** What the client calls the file: never to be trusted as a path. */
  readonly filename: string;
  readonly type: string;
}

export interface ReceiveFormOptions extends ReceiveOptions {
  /** Where to put a file; called before its bytes are read. */
  readonly place: (file: FormFile) => string;
  /** How many files it may have. An integer from 0. @default 10 */
  readonly filesMax?: number | undefined;
  /** How many other fields it may have. An integer from 0. @default 100 */
  readonly fieldsMax?: number | undefined;
}

export interface ReceivedForm {
  readonly files: readonly (FormFile & Received)[];
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

/** The longest value of a field that is not a file, in bytes. */
const fieldBytesMax = 65_536;

/**
 * A `multipart/form-data` body: its files are put where `place` says when all of it has come, and
 * none of them if anything is wrong with it. `bytesMax` is for all files together.
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
        fields.push(fieldOf(part));
        continue;
      }
      const file = await stageFile(part, options, left);
      files.push(file);
      left -= file.bytes;
    }
    return { fields, files: await commitAll(files) };
  } catch (error) {
    await Promise.all(files.map(discard));
    throw refusal(error);
  }
}

function fieldOf({ fieldname, value, valueTruncated }: MultipartValue): {
  name: string;
  value: string;
} {
  if (valueTruncated) throw tooLarge(fieldBytesMax);
  return { name: fieldname, value: String(value) };
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
    throw Object(error).code === 'BODY_TOO_LARGE' ? tooLarge(bytesMax) : error;
  }
}

async function commitAll(files: readonly (FormFile & Staged)[]): Promise<(FormFile & Received)[]> {
  const received: (FormFile & Received)[] = [];
  for (const file of files) {
    const { field, filename, type } = file;
    received.push({ field, filename, type, ...(await commit(file)) });
  }
  return received;
}

/** What the parser complains of, in our words. */
function refusal(error: unknown): unknown {
  if (error instanceof SpillwayError) return error;
  const { code, statusCode, message } = Object(error);
  if (statusCode === 413) return httpError('BODY_TOO_LARGE', message, { cause: error });
  const isMalformed = statusCode < 500 || code === undefined;
  if (!(error instanceof Error) || !isMalformed) return error;
  return httpError('BODY_INVALID', message, { cause: error });
}
