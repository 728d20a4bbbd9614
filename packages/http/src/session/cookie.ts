import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import fastifyCookie from '@fastify/cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { check } from 'spillway/internal';

export interface CookieOptions {
  /** Name without its prefix: 1 to 64 letters, digits, `-` and `_`. */
  readonly name: string;
  /**
   * Browsers send it over https only. @default true, except for plain http to this machine
   * (localhost, 127.0.0.1, [::1]), as in development
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

  static async prepare(app: FastifyInstance): Promise<void> {
    if (!app.hasReplyDecorator('setCookie')) await app.register(fastifyCookie);
  }

  read(request: FastifyRequest): string | undefined {
    const { cookie } = request.headers;
    const { name } = this.#options;
    // Most requests have no cookie of ours, and are not parsed.
    if (!cookie?.includes(name)) return undefined;
    return request.server.parseCookie(cookie)[this.#attributes(request).name];
  }

  /** Sets the cookie; without `maxAgeMs` the browser forgets it when it is closed. */
  write(reply: FastifyReply, value: string, maxAgeMs?: number): void {
    const { name, ...attributes } = this.#attributes(reply.request);
    const age = maxAgeMs === undefined ? {} : { maxAge: Math.floor(maxAgeMs / 1000) };
    reply.setCookie(name, value, { ...attributes, ...age });
  }

  clear(reply: FastifyReply): void {
    this.write(reply, '', 0);
  }

  #attributes(request: FastifyRequest) {
    const secure = this.#options.secure ?? !isDevelopment(request);
    const name = `${secure ? '__Host-' : ''}${this.#options.name}`;
    return { name, path: '/', httpOnly: true, secure, sameSite: 'lax' } as const;
  }
}

function isDevelopment({ protocol, hostname }: FastifyRequest): boolean {
  return protocol === 'http' && /^(localhost|127\.0\.0\.1|\[?::1\]?)$/.test(hostname);
}

/** Secrets of at least 32 bytes. The first signs; all verify, so that one can be replaced. */
export type SigningKeys = readonly (string | Uint8Array)[];

const keyBytesMin = 32;

/** Signs texts for a purpose (HMAC-SHA-256); a signature is void for any other purpose. */
export class Signer {
  /** Key objects, made once: a signature with plain bytes costs ten times as much. */
  readonly #keys: readonly KeyObject[];

  constructor(keys: SigningKeys) {
    const isKey = (key: string | Uint8Array) => Buffer.byteLength(key) >= keyBytesMin;
    const holds = Array.isArray(keys) && keys.length > 0 && keys.every(isKey);
    // The keys themselves must not be in a message.
    check(holds, 'keys', `a list of keys of at least ${keyBytesMin} bytes`, 'others');
    this.#keys = keys.map((key) =>
      typeof key === 'string' ? createSecretKey(key, 'utf8') : createSecretKey(key),
    );
  }

  sign(purpose: string, text: string): string {
    return signature(this.#keys[0] as KeyObject, purpose, text);
  }

  verify(purpose: string, text: string, given: string): boolean {
    return this.#keys.some((key) => isSame(signature(key, purpose, text), given));
  }
}

/** Compares secrets in a time that does not tell where they differ. */
export function isSame(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

function signature(key: KeyObject, purpose: string, text: string): string {
  return createHmac('sha256', key).update(`${purpose}\0${text}`).digest('base64url');
}
