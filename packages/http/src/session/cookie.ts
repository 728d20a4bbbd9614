import fastifyCookie from '@fastify/cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { check } from 'spillway/internal';

export interface CookieOptions {
  /** The name, without its prefix; letters, digits, `-` and `_`. */
  readonly name: string;
  readonly sameSite: 'lax' | 'strict';
  /**
   * Whether browsers may send it over https only. @default true, except for plain http to this
   * machine (localhost, 127.0.0.1, [::1]), as in development
   */
  readonly secure: boolean | undefined;
}

/** A cookie for the server alone, named `__Host-` wherever https protects it. */
export class Cookie {
  readonly #options: CookieOptions;

  constructor(options: CookieOptions) {
    const { name } = options;
    check(/^[\w-]{1,64}$/.test(name), 'name', '1 to 64 letters, digits, - and _', name);
    this.#options = options;
  }

  /** Makes sure that the instance reads and writes cookies. */
  static async prepare(app: FastifyInstance): Promise<void> {
    if (!app.hasReplyDecorator('setCookie')) await app.register(fastifyCookie);
  }

  read(request: FastifyRequest): string | undefined {
    const { cookie } = request.headers;
    const { name } = this.#options;
    // Most requests have none: they are not parsed for it.
    if (!cookie?.includes(name)) return undefined;
    return request.server.parseCookie(cookie)[this.#attributes(request).name];
  }

  /** Without `maxAgeMs` the browser forgets it when it is closed. */
  write(reply: FastifyReply, value: string, maxAgeMs?: number): void {
    const { name, ...attributes } = this.#attributes(reply.request);
    const age = maxAgeMs === undefined ? {} : { maxAge: Math.floor(maxAgeMs / 1000) };
    reply.setCookie(name, value, { ...attributes, ...age });
  }

  clear(reply: FastifyReply): void {
    this.write(reply, '', 0);
  }

  #attributes(request: FastifyRequest) {
    const { sameSite } = this.#options;
    const secure = this.#options.secure ?? !isDevelopment(request);
    const name = `${secure ? '__Host-' : ''}${this.#options.name}`;
    return { name, path: '/', httpOnly: true, secure, sameSite } as const;
  }
}

function isDevelopment({ protocol, hostname }: FastifyRequest): boolean {
  return protocol === 'http' && /^(localhost|127\.0\.0\.1|\[?::1\]?)$/.test(hostname);
}
