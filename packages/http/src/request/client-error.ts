import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type HttpErrorCode, httpError } from '../base/errors.ts';

const codes: Readonly<Record<string, readonly [HttpErrorCode, string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_SLOW', 'the request took too long to arrive'],
  HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'the headers are too long'],
};

/** Answers bytes that are no request, or no whole one in time, and ends the connection. */
export function answerClientError(
  error: Error & { readonly code?: string },
  socket: Socket & { readonly _httpMessage?: unknown },
): void {
  // In the middle of another answer, ours would be taken for a part of it.
  if (error.code !== 'ECONNRESET' && socket.writable && !socket._httpMessage) {
    const [name, text] = codes[error.code ?? ''] ?? ['REQUEST_INVALID', 'this is no HTTP request'];
    const { code, status, message } = httpError(name, text);
    const body = JSON.stringify({ ok: false, error: { code, message } });
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\n` +
        `content-type: application/json; charset=utf-8\r\ncontent-length: ${body.length}\r\n` +
        `x-content-type-options: nosniff\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
