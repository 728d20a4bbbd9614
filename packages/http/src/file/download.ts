import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { check, checkInteger } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { type Piece, type PieceSource, PieceStream, readable } from '../page/piece-stream.ts';
import { byteRange } from './byte-range.ts';
import { evaluate, isRangeFresh } from './conditions.ts';

export interface Download {
  /** Pieces of known sizes, of which ranges can be asked for; or a stream of any length. */
  readonly body: readonly Piece[] | PieceSource;
  /** @default 'application/octet-stream' */
  readonly type?: string | undefined;
  /** What a browser shall save it as. @default not said: it may show it */
  readonly name?: string | undefined;
  /** Changes whenever a byte of the body does: visible ASCII without quotes. @default none */
  readonly version?: string | undefined;
  /** When it last changed, in milliseconds since 1970. @default not said */
  readonly modifiedAt?: number | undefined;
}

/**
 * Answers with a body of any size in constant memory, at the pace of the client. Whatever it reads
 * from is closed as soon as the client is gone. `return download(reply, { … });`
 */
export function download(reply: FastifyReply, options: Download): FastifyReply {
  const { body, version, modifiedAt } = options;
  const isToken = version === undefined || /^[\x21\x23-\x7e]+$/.test(version);
  check(isToken, 'version', 'visible ASCII without quotes', version);
  const etag = version === undefined ? undefined : `"${version}"`;
  const lastModified = modifiedAt === undefined ? undefined : new Date(modifiedAt).toUTCString();
  if (etag !== undefined) reply.header('etag', etag);
  if (lastModified !== undefined) reply.header('last-modified', lastModified);
  const { headers, method } = reply.request;
  const verdict = evaluate(headers, { etag, lastModified });
  if (verdict !== 'send') abandon(body);
  if (verdict === 'failed') throw httpError('PRECONDITION_FAILED', 'it is another version');
  if (verdict === 'unchanged')
    return method === 'HEAD' ? empty(reply, 304) : reply.code(304).send();
  if (!Array.isArray(body)) return sendStream(reply, options, body as PieceSource);
  return sendPieces(
    reply,
    options,
    body,
    isRangeFresh(headers['if-range'], { etag, lastModified }),
  );
}

function sendStream(reply: FastifyReply, options: Download, source: PieceSource): FastifyReply {
  describe(reply, options);
  if (reply.request.method !== 'HEAD') return reply.send(readable(source));
  abandon(source);
  return empty(reply, 200);
}

function sendPieces(
  reply: FastifyReply,
  options: Download,
  pieces: readonly Piece[],
  isFresh: boolean,
): FastifyReply {
  const { headers, method } = reply.request;
  let size = 0;
  for (const piece of pieces) {
    checkInteger('size', piece.size, 0);
    size += piece.size;
  }
  // Ranges are defined for GET only.
  const range = method === 'GET' && isFresh ? byteRange(headers.range, size) : undefined;
  reply.header('accept-ranges', 'bytes');
  if (range === 'none') {
    reply.header('content-range', `bytes */${size}`);
    throw httpError('RANGE_REFUSED', `there are ${size} bytes`);
  }
  const { start, end } = range ?? { start: 0, end: size };
  describe(reply, options);
  reply.header('content-length', end - start);
  if (range !== undefined) {
    reply.code(206).header('content-range', `bytes ${start}-${end - 1}/${size}`);
  }
  if (method === 'HEAD') return empty(reply, 200);
  return reply.send(new PieceStream(pieces, { start, end }));
}

function describe(reply: FastifyReply, { type, name }: Download): void {
  reply.type(type ?? 'application/octet-stream');
  if (name !== undefined) reply.header('content-disposition', disposition(name));
}

/** Fastify would read all of a stream to answer a HEAD, and set the length of no body to 0. */
function empty(reply: FastifyReply, status: number): FastifyReply {
  return reply.code(status).send(Readable.from([]));
}

function abandon(body: Download['body']): void {
  if (body instanceof Readable) body.destroy();
}

/** The name twice: as plain ASCII for old clients, and as it is. */
function disposition(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const exact = encodeURIComponent(name.toWellFormed()).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${exact}`;
}
