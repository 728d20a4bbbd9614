import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { type Clock, wallClock } from 'spillway';
import { check, checkInteger, checkNumber } from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { Cookie } from './cookie.ts';
import { Session, type SessionState } from './session-data.ts';
import { Signer, type SigningKeys } from './signer.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Read from its cookie when it is first used; empty if there is none that is valid. */
    readonly session: Session;
    /** The session once it was used. */
    openSession: Session | null;
  }
}

export interface SessionOptions {
  readonly keys: SigningKeys;
  /** The cookie's name, before its prefix. @default 'session' */
  readonly name?: string | undefined;
  /** How long a session may last, in milliseconds, however busy; from 1 s, default 24 hours. */
  readonly ageMs?: number | undefined;
  /** How long it lasts without a request, in milliseconds; from 1 s, default 2 hours. */
  readonly idleMs?: number | undefined;
  /** How long one lasts that is remembered, used or not, in milliseconds; default 30 days. */
  readonly rememberMs?: number | undefined;
  /** How long name and value of the cookie may be, in bytes; 256 to 4,096, the default. */
  readonly bytesMax?: number | undefined;
  /** @default 'lax' */
  readonly sameSite?: 'lax' | 'strict' | undefined;
  /** As of {@link CookieOptions}. @default true, except for plain http to this machine */
  readonly secure?: boolean | undefined;
  /** Milliseconds since 1970. @default the machine's */
  readonly clock?: Clock | undefined;
}

const hourMs = 3_600_000;
const ageMsMax = 400 * 24 * hourMs;
/** A cookie that is used is written anew after this share of `idleMs`, not at every request. */
const refreshShare = 0.1;
const prefixLength = '__Host-='.length;

/** Sessions in signed cookies: no store, any instance reads them, none can take one back. */
export const sessions: FastifyPluginAsync<SessionOptions> = fastifyPlugin(
  async (app: FastifyInstance, options: SessionOptions) => {
    const { name = 'session', ageMs = 24 * hourMs, idleMs = 2 * hourMs } = options;
    const { rememberMs = 30 * 24 * hourMs, bytesMax = 4096, clock = wallClock } = options;
    const { sameSite = 'lax', secure } = options;
    const ages = { ageMs, idleMs, rememberMs };
    for (const [option, ms] of Object.entries(ages)) checkNumber(option, ms, 1000, ageMsMax);
    checkInteger('bytesMax', bytesMax, 256, 4096);
    check(['lax', 'strict'].includes(sameSite), 'sameSite', "'lax' or 'strict'", sameSite);
    const nowMs = () => Math.floor(clock.now());
    const signer = new Signer(options.keys);
    const cookie = new Cookie({ name, sameSite, secure });
    await Cookie.prepare(app);

    const seal = (state: SessionState): string => {
      const text = Buffer.from(JSON.stringify(state)).toString('base64url');
      return `${text}.${signer.sign(`session ${name}`, text)}`;
    };
    const checkSize = (state: SessionState): void => {
      const bytes = prefixLength + name.length + seal(state).length;
      if (bytes <= bytesMax) return;
      const message = `the session's cookie would have ${bytes} bytes of at most ${bytesMax}`;
      throw httpError('SESSION_TOO_LARGE', message);
    };
    const endOf = ({ isRemembered, startedAt, usedAt }: SessionState): number =>
      isRemembered ? startedAt + rememberMs : Math.min(startedAt + ageMs, usedAt + idleMs);
    const open = (sealed: string): SessionState | undefined => {
      const [text = '', signature = '', ...more] = sealed.split('.');
      if (more.length > 0 || !signer.verify(`session ${name}`, text, signature)) return undefined;
      const state = JSON.parse(Buffer.from(text, 'base64url').toString()) as SessionState;
      return nowMs() < endOf(state) ? state : undefined;
    };

    app.decorateRequest('openSession', null);
    app.decorateRequest('session', {
      getter(this: FastifyRequest): Session {
        const sealed = this.openSession === null ? cookie.read(this) : undefined;
        const state = sealed === undefined ? undefined : open(sealed);
        this.openSession ??= new Session(state, nowMs, checkSize);
        return this.openSession;
      },
    });

    app.addHook('onSend', async (request, reply, payload) => {
      const { state, isChanged } = request.session.close();
      const now = nowMs();
      if (state === undefined) {
        if (cookie.read(request) !== undefined) cookie.clear(reply);
      } else if (isChanged || (!state.isRemembered && now - state.usedAt > idleMs * refreshShare)) {
        const maxAgeMs = state.isRemembered ? endOf(state) - now : undefined;
        cookie.write(reply, seal({ ...state, usedAt: now }), maxAgeMs);
      }
      return payload;
    });
  },
  { name: 'spillway-session', fastify: '5.x' },
);

/** The session of a request whose data has this type. */
export function sessionOf<Data extends object>(request: FastifyRequest): Session<Data> {
  return request.session as unknown as Session<Data>;
}
