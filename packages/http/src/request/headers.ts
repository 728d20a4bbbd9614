import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyReply } from 'fastify';

const idHeader = 'x-request-id';
const allowed = /^[A-Za-z0-9._-]{1,64}$/;
/** Id of the process; a UUID for each request would cost as much as its lane (2026-11). */
const prefix = randomBytes(6).toString('hex');
let count = 0;

/** The id that came with the request if it can stand in a log as it is, else a new one. */
export function requestId(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers[idHeader];
  if (typeof given === 'string' && allowed.test(given)) return given;
  count += 1;
  return `${prefix}-${count}`;
}

/**
 * The headers of every answer: the id of its request, and those that make browsers careful (no
 * sniffing, no frames, own content only, https from then on).
 */
export class Headers {
  readonly #plain: Readonly<Record<string, string>>;
  readonly #secured: Readonly<Record<string, string>>;

  constructor(contentSecurityPolicy = "default-src 'self'") {
    this.#plain = {
      'content-security-policy': contentSecurityPolicy,
      'referrer-policy': 'strict-origin-when-cross-origin',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    };
    this.#secured = { ...this.#plain, 'strict-transport-security': 'max-age=31536000' };
  }

  set(reply: FastifyReply): void {
    const { protocol, id } = reply.request;
    reply.headers(protocol === 'https' ? this.#secured : this.#plain).header(idHeader, id);
  }
}
