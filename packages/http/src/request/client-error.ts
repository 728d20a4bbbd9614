import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SpillwayError } from 'spillway';
import { type HttpErrorCode, httpError } from '../base/errors.ts';

const codes: Readonly<Record<string, readonly [HttpErrorCode, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_SLOW', 'the request took too long to arrive'],
  HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'the headers are too long'],
};

interface Answering {
  /** Answer that is being made on this connection. */
  readonly _httpMessage?: ServerResponse | null;
}

/** Answers bytes that are no request, or no whole one in time, and ends the connection. */
export function answerClientError(
  error: Error & { readonly code?: string },
  socket: Socket & Answering,
): void {
  const answer = socket._httpMessage;
  // After a whole request, or in the middle of an answer, ours would be taken for that answer.
  const isFree = !answer || !(answer.headersSent || answer.req.complete);
  if (error.code !== 'ECONNRESET' && isFree) {
    const [name, text] = codes[error.code ?? ''] ?? ['REQUEST_INVALID', 'this is not HTTP'];
    write(socket, httpError(name, text));
  }
  socket.destroySoon();
}

/** Answers CONNECT, which Node would end without a word, unless answers before it are due. */
export function refuseConnect(_request: unknown, socket: Duplex & Answering): void {
  socket.on('error', () => socket.destroy());
  if (socket._httpMessage) {
    socket.destroy();
    return;
  }
  write(socket, httpError('METHOD_REFUSED', 'this server is not a proxy'), 'allow: \r\n');
  socket.end(() => socket.destroy());
}

function write(socket: Duplex, { code, status, message }: SpillwayError, headers = ''): void {
  if (!socket.writable) return;
  const body = JSON.stringify({ ok: false, error: { code, message } });
  socket.write(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\n${headers}` +
      `content-type: application/json; charset=utf-8\r\ncontent-length: ${body.length}\r\n` +
      `x-content-type-options: nosniff\r\n\r\n${body}`,
  );
}
