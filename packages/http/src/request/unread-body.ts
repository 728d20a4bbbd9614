import type { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { type Clock, systemClock } from 'spillway';

/** A body of at most this many bytes is read and discarded: cheaper than a new connection. */
const discardBytesMax = 65_536;
const lingerMsMax = 1_000;
const lingerCheckMs = 50;
const lingerBytesMax = 8 * 1_024 * 1_024;

/** True for a stream of Node, from whatever copy of a library it comes. */
export function isStream(value: unknown): value is Readable {
  return typeof (value as { pipe?: unknown } | null | undefined)?.pipe === 'function';
}

/** True if the request came with a body, of whatever length. */
export function hasBody({ raw }: FastifyReply['request']): boolean {
  const { headers } = raw;
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/**
 * Ends the connection with an answer that comes before the body was read, so that a long upload
 * does not go on. A body that is short by its `content-length` is read and discarded instead,
 * unless the client is known to be slow.
 */
export function refuseBody(reply: FastifyReply, clock: Clock = systemClock, isSlow = false): void {
  const { request } = reply;
  if (request.raw.complete || !hasBody(request)) return;
  if (!isSlow && Number(request.headers['content-length']) <= discardBytesMax) return;
  reply.header('connection', 'close');
  const { socket } = request.raw;
  // Node ends the connection by this call. Closing it while data arrives would make the kernel send
  // a reset, which can destroy the answer on its way: so it is closed for writing first, and for
  // reading a while later.
  socket.destroySoon = () => {
    socket.end();
    const startedAt = clock.now();
    const bytesMax = socket.bytesRead + lingerBytesMax;
    const check = (): void => {
      if (socket.destroyed) return;
      const isOver = clock.now() - startedAt >= lingerMsMax || socket.bytesRead > bytesMax;
      if (isOver) socket.destroy();
      else clock.after(lingerCheckMs, check);
    };
    check();
  };
}
