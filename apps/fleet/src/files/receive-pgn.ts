import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { Gate } from 'spillway';
import { check } from 'spillway/internal';
import { fleetError } from '../errors.ts';
import type { DraftFile } from './draft-file.ts';
import { checkGzip } from './gzip-check.ts';
import type { PgnShelf } from './pgn-shelf.ts';
import { UploadBody } from './upload-body.ts';

export interface ReceivePgnOptions {
  readonly shelf: PgnShelf;
  /** Bounds how many files are looked into at once: that takes a core. */
  readonly checks: Gate;
  /** The longest body, in bytes. */
  readonly bodyBytesMax: number;
  /** The most that may come out of the gzip, in bytes. */
  readonly textBytesMax: number;
  /**
   * All other checks of a worker's request, in their order. Its `pgn` is there if the body has one,
   * but empty. Throws, or gives the task whose games they are.
   */
  readonly admit: (
    body: unknown,
    signal: AbortSignal,
  ) => Promise<{ readonly run_id: string; readonly task_id: number }>;
}

/**
 * Takes the games of a task, in constant memory; they are durable when this resolves. The route
 * must leave its body unread, as `uploads` does.
 */
export async function receivePgn(
  request: FastifyRequest,
  options: ReceivePgnOptions,
  signal: AbortSignal,
): Promise<void> {
  const { shelf, textBytesMax, admit } = options;
  const { body } = request;
  check(body instanceof Readable, 'body', 'unparsed: register `uploads` in its scope', body);
  await using draft = await shelf.draft();
  const upload = new UploadBody();
  await drain(body, upload, draft, options.bodyBytesMax, signal);
  const task = await admit(upload.end(), signal);
  if (upload.gamesFault !== undefined) throw fleetError('REQUEST_INVALID', upload.gamesFault);
  using _permit = await options.checks.enter(signal);
  await checkGzip(draft.path, { bytes: draft.bytes, textBytesMax, signal });
  await shelf.put(task, draft);
}

async function drain(
  body: Readable,
  upload: UploadBody,
  draft: DraftFile,
  bytesMax: number,
  signal: AbortSignal,
): Promise<void> {
  // Not destroyed when this fails: that would cut the connection before the answer.
  const chunks = body.iterator({ destroyOnReturn: false });
  let bytes = 0;
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    bytes += chunk.length;
    if (bytes > bytesMax) {
      throw fleetError('REQUEST_TOO_LARGE', `the body may have ${bytesMax} bytes at most`);
    }
    for (const games of upload.take(chunk)) await draft.write(games);
  }
}
