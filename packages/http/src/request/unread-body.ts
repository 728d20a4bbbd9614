import type { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { type Clock, systemClock } from 'spillway';

/** Rest of a body that is read and discarded, in bytes: cheaper than a new connection. */
const forgetBytesMax = 65_536;
const lingerMsMax = 1_000;
const lingerLookMs = 50;
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
 * does not go on. A short rest of the body is read and discarded instead, unless the client is
 * known to be slow.
 */
export function refuseBody(reply: FastifyReply, clock: Clock = systemClock, isSlow = false): void {
  const { request } = reply;
  if (request.raw.complete || !hasBody(request)) return;
  if (!isSlow && Number(request.headers['content-length']) <= forgetBytesMax) return;
  reply.header('connection', 'close');
  const { socket } = request.raw;
  // Node ends the connection by this call. To end it while data arrives makes the kernel reset it,
  // and the client's answer is lost on the way: so it is closed for writing first, and a while for
  // reading.
  socket.destroySoon = () => {
    socket.end();
    const startedAt = clock.now();
    const bytesMax = socket.bytesRead + lingerBytesMax;
    const look = (): void => {
      if (socket.destroyed) return;
      const isOver = clock.now() - startedAt >= lingerMsMax || socket.bytesRead > bytesMax;
      if (isOver) socket.destroy();
      else clock.after(lingerLookMs, look);
    };
    look();
  };
}
