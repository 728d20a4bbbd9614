import { randomBytes } from 'node:crypto';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { type Clock, wallClock } from 'spillway';
import { anything, clockRule, flag, maybe, number, or, settle, word } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';
import { origins } from '../base/rules.ts';
import { Cookie, isSame, Signer, type SigningKeys } from './cookie.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** True if changes are checked; false for a webhook. @default true */
    readonly csrf?: boolean | undefined;
  }
  interface FastifyRequest {
    /**
     * Throws unless this is the token of a page of ours: for a route with `csrf: false` that finds
     * it in a body that it reads itself.
     */
    checkCsrf(given: unknown): void;
  }
  interface FastifyReply {
    /** Gives the token for the forms of this page, and sets the cookie that goes with it. */
    csrfToken(): string;
    /** Token, once it was asked for. */
    csrfTokenSet: string | null;
  }
}

export interface CsrfOptions {
  /** Secrets that sign tokens: the first signs, all are accepted. */
  readonly keys: SigningKeys;
  /** Milliseconds a token is valid; 1 s to 7 days. @default 7_200_000 */
  readonly ageMs?: number | undefined;
  /** Field of a parsed body that may carry the token. @default '_csrf' */
  readonly field?: string | undefined;
  /** Other origins whose pages may send changes, as `https://example.org`. @default none */
  readonly origins?: readonly string[] | undefined;
  /** True if it is sent over https only. @default true, except for plain http to this machine */
  readonly secure?: boolean | undefined;
  /** Clock with milliseconds since 1970. @default the machine's */
  readonly clock?: Clock | undefined;
}

const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);
const ageMsMax = 7 * 86_400_000;

const rules = {
  keys: anything,
  ageMs: or(number(1_000, ageMsMax), 7_200_000),
  field: or(word, '_csrf' as string),
  origins: or(origins, [] as readonly string[]),
  secure: maybe(flag),
  clock: or(clockRule, wallClock),
};

/**
 * Refuses changes that another site made a browser send. A request with a cookie needs a token:
 * signed, bound to host and session, the same in cookie and header (`x-csrf-token`) or form. A
 * request without any cookie needs none; with a bearer token it may come from any page.
 */
export const csrf: FastifyPluginAsync<CsrfOptions> = plugin('csrf', async (app, options) => {
  const settings = settle('csrf', options, rules);
  const { ageMs, origins, clock, field } = settings;
  const signer = new Signer(options.keys);
  const cookie = new Cookie({ name: 'csrf', secure: settings.secure });
  await Cookie.prepare(app);

  const purposeOf = (request: FastifyRequest) =>
    JSON.stringify(['csrf', request.host, sessionId(request) ?? '']);

  /** Age of a token in milliseconds; Infinity if it was not issued for this session. */
  const ageOf = (request: FastifyRequest, token: string): number => {
    const [issuedAt = '', nonce = '', signature = ''] = token.split('.');
    const isOurs = signer.verify(purposeOf(request), `${issuedAt}.${nonce}`, signature);
    // Below 0 after the clock was set back: it is a token of ours all the same.
    return isOurs ? clock.now() - Number.parseInt(issuedAt, 36) : Infinity;
  };

  const issue = (reply: FastifyReply): string => {
    const { request } = reply;
    const held = cookie.read(request);
    // All pages of a session share a token: a new one would make open pages useless.
    if (held !== undefined && ageOf(request, held) < ageMs / 2) return held;
    const nonce = randomBytes(16).toString('base64url');
    const text = `${Math.floor(clock.now()).toString(36)}.${nonce}`;
    const token = `${text}.${signer.sign(purposeOf(request), text)}`;
    cookie.write(reply, token, ageMs);
    return token;
  };

  app.decorateReply('csrfTokenSet', null);
  app.decorateReply('csrfToken', function csrfToken(this: FastifyReply) {
    this.csrfTokenSet ??= masked(issue(this));
    return this.csrfTokenSet;
  });

  app.decorateRequest('checkCsrf', function checkCsrf(this: FastifyRequest, given: unknown) {
    const held = cookie.read(this);
    if (held === undefined || typeof given !== 'string') throw refusal('it has no token');
    if (!isSame(held, unmasked(given))) throw refusal('its token is not that of its cookie');
    if (ageOf(this, held) >= ageMs) throw refusal('its token is too old or not its own');
  });

  app.addHook('preValidation', async (request) => {
    const { method, headers, routeOptions } = request;
    if (safeMethods.has(method) || routeOptions.config.csrf === false || request.is404) return;
    const hasCookie = headers.cookie !== undefined;
    if (!hasCookie && /^bearer /i.test(headers.authorization ?? '')) return;
    if (!isFromHere(request, origins)) throw refusal('it was sent by a page of another site');
    // Without a cookie the browser has added nothing that its page could not have sent.
    if (!hasCookie) return;
    request.checkCsrf(headers['x-csrf-token'] ?? fieldOf(request.body, field));
  });
});

/**
 * The token as pages show it, masked anew on each. Otherwise the size of a compressed page would
 * tell an eavesdropper whether text that they put into it is a part of the token.
 */
function masked(token: string): string {
  const bytes = Buffer.from(token);
  const mask = randomBytes(bytes.length);
  return Buffer.concat([mask, xor(bytes, mask)]).toString('base64url');
}

/** Removes the mask; gives some other text if this was no masked token. */
function unmasked(given: string): string {
  const bytes = Buffer.from(given, 'base64url');
  const half = bytes.length >> 1;
  return xor(bytes.subarray(half), bytes.subarray(0, half)).toString();
}

function xor(bytes: Buffer, mask: Buffer): Buffer {
  return Buffer.from(bytes.map((byte, at) => byte ^ (mask[at] ?? 0)));
}

function refusal(why: string): Error {
  return httpError('CSRF_REFUSED', `the change was not made: ${why}`);
}

function sessionId(request: FastifyRequest): string | undefined {
  return (request as { session?: { id?: string | undefined } }).session?.id;
}

function fieldOf(body: unknown, field: string): unknown {
  const isForm = typeof body === 'object' && body !== null && Object.hasOwn(body, field);
  return isForm ? (body as Record<string, unknown>)[field] : undefined;
}

/** True if a page of ours sent the request; a client that names no origin is not a browser. */
function isFromHere({ headers, host }: FastifyRequest, origins: readonly string[]): boolean {
  const { origin } = headers;
  const site = headers['sec-fetch-site'];
  if (origin !== undefined && origins.includes(origin)) return true;
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  if (origin === undefined) return true;
  return URL.parse(origin)?.host === host;
}
