import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { check, checkInteger } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { type ByteRange, type Piece, type PieceSource, PieceStream, readable } from './pieces.ts';

/** A file to send, and how browsers should treat it. */
export interface Download {
  /** Pieces of known sizes, of which ranges can be asked for; or a stream of any length. */
  readonly body: readonly Piece[] | PieceSource;
  /** Media type. @default 'application/octet-stream' */
  readonly type?: string | undefined;
  /** Name under which a browser saves it. @default none: a browser may show it */
  readonly name?: string | undefined;
  /** Version that changes with every byte: visible ASCII without quotes. @default none */
  readonly version?: string | undefined;
  /** Time of the last change, in milliseconds since 1970. @default none */
  readonly modifiedAt?: number | undefined;
}

/**
 * Answers with a body of any size in constant memory, at the pace of the client. Its sources are
 * closed as soon as the client is gone. `return download(reply, { … });`
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
  const validators = { etag, lastModified };
  const verdict = evaluate(headers, validators);
  if (verdict !== 'send') abandon(body);
  if (verdict === 'failed') throw httpError('PRECONDITION_FAILED', 'it is another version');
  if (verdict === 'unchanged') {
    return method === 'HEAD' ? empty(reply, 304) : reply.code(304).send();
  }
  if (!Array.isArray(body)) return sendStream(reply, options, body as PieceSource);
  const isFresh = isRangeFresh(headers['if-range'], validators);
  return sendPieces(reply, options, body, isFresh);
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

/** An empty stream: Fastify would set the length of an answer without a body to 0. */
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

/** Validators of a body: its `ETag` with quotes, and its `Last-Modified`. */
interface Validators {
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** Evaluates the conditions of a request as RFC 9110, section 13.2.2, orders them. */
function evaluate(
  headers: IncomingHttpHeaders,
  { etag, lastModified }: Validators,
): 'failed' | 'send' | 'unchanged' {
  const modified = seconds(lastModified);
  const unmodifiedSince = seconds(headers['if-unmodified-since']);
  if (headers['if-match'] !== undefined) {
    if (!isListed(headers['if-match'], etag, false)) return 'failed';
  } else if (unmodifiedSince !== undefined && modified !== undefined) {
    if (modified > unmodifiedSince) return 'failed';
  }
  if (headers['if-none-match'] !== undefined) {
    return isListed(headers['if-none-match'], etag, true) ? 'unchanged' : 'send';
  }
  const modifiedSince = seconds(headers['if-modified-since']);
  if (modifiedSince === undefined || modified === undefined) return 'send';
  return modified <= modifiedSince ? 'unchanged' : 'send';
}

/** True if a range may be sent: `If-Range` must name exactly this version. */
function isRangeFresh(header: unknown, { etag, lastModified }: Validators): boolean {
  if (header === undefined) return true;
  return header === etag || (lastModified !== undefined && header === lastModified);
}

/** True if the list names the tag; a weak tag counts only in a weak comparison. */
function isListed(list: string, etag: string | undefined, weakly: boolean): boolean {
  if (list.trim() === '*') return true;
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? [];
  return tags.some((tag) => tag === etag || (weakly && tag === `W/${etag}`));
}

function seconds(date: string | undefined): number | undefined {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000);
}

/**
 * The range that a `Range` header asks for; `'none'` when nothing of it lies inside; undefined when
 * the header is absent, malformed or asks for several ranges: then the whole is sent.
 */
function byteRange(header: string | undefined, size: number): ByteRange | 'none' | undefined {
  const match = /^bytes[ \t]*=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '');
  const [, first = '', last = ''] = match ?? [];
  if (match === null || (first === '' && last === '')) return undefined;
  if (first === '') {
    const length = Number(last);
    if (length === 0) return 'none';
    return size === 0 ? undefined : { start: Math.max(0, size - length), end: size };
  }
  const start = Number(first);
  const end = last === '' ? size : Math.min(size, Number(last) + 1);
  if (last !== '' && Number(last) < start) return undefined;
  return start >= size ? 'none' : { start, end };
}
