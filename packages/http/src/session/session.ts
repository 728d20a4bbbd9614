import { randomBytes } from 'node:crypto';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { type Clock, type Json, wallClock } from 'spillway';
import {
  anything,
  check,
  clockRule,
  flag,
  jsonText,
  maybe,
  number,
  or,
  settle,
  word,
} from 'spillway/internal';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';
import { Cookie, Signer, type SigningKeys } from './cookie.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Session, read from its cookie when it is first used; empty without a valid cookie. */
    readonly session: Session;
    /** Session, once it was used. */
    openSession: Session | null;
  }
}

export interface SessionOptions {
  /** Secrets that sign cookies: the first signs, all are accepted. */
  readonly keys: SigningKeys;
  /** Name of the cookie, before its prefix. @default 'session' */
  readonly name?: string | undefined;
  /** Milliseconds a session may last, however busy; 1 s to 400 days. @default 86_400_000 */
  readonly ageMs?: number | undefined;
  /** Milliseconds it lasts without a request; 1 s to 400 days. @default 7_200_000 */
  readonly idleMs?: number | undefined;
  /** Milliseconds a remembered one lasts, used or not; 1 s to 400 days. @default 2_592_000_000 */
  readonly rememberMs?: number | undefined;
  /** True if it is sent over https only. @default true, except for plain http to this machine */
  readonly secure?: boolean | undefined;
  /** Clock with milliseconds since 1970. @default the machine's */
  readonly clock?: Clock | undefined;
}

const hourMs = 3_600_000;
const ageMsMax = 400 * 24 * hourMs;
/** Share of `idleMs` after which the cookie of a session in use is written again. */
const refreshShare = 0.1;
const prefixLength = '__Host-='.length;
/** Name and value of a cookie that every browser takes, in bytes. */
const bytesMax = 4_096;

const rules = {
  keys: anything,
  name: or(word, 'session' as string),
  ageMs: or(number(1_000, ageMsMax), 24 * hourMs),
  idleMs: or(number(1_000, ageMsMax), 2 * hourMs),
  rememberMs: or(number(1_000, ageMsMax), 30 * 24 * hourMs),
  secure: maybe(flag),
  clock: or(clockRule, wallClock),
};

/** Keeps sessions in signed cookies: no store; any instance reads them, none can revoke one. */
export const sessions: FastifyPluginAsync<SessionOptions> = plugin(
  'session',
  async (app, options) => {
    const settings = settle('sessions', options, rules);
    const { name, ageMs, idleMs, rememberMs, clock, secure } = settings;
    const nowMs = () => Math.floor(clock.now());
    const signer = new Signer(options.keys);
    const cookie = new Cookie({ name, secure });
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
);

/** The session of a request, with data of this type. */
export function sessionOf<Data extends object>(request: FastifyRequest): Session<Data> {
  return request.session as unknown as Session<Data>;
}

/** A message for the next page that the user sees. */
export interface FlashMessage {
  /** Kind of message, for its looks: `info`, `error`. */
  readonly kind: string;
  readonly text: string;
}

/** Messages that wait for the next page; the oldest go first. */
const flashMax = 5;

/** Content of a session's cookie. Times are in milliseconds since 1970. */
interface SessionState {
  readonly id: string;
  readonly startedAt: number;
  readonly usedAt: number;
  readonly isRemembered: boolean;
  readonly data: Readonly<Record<string, Json>>;
  readonly flash: readonly FlashMessage[];
}

/**
 * Data about the sender of a request, kept in a cookie that only the server can write, though its
 * owner can read it. {@link sessionOf} gives the data a type.
 */
export class Session<Data extends object = Record<string, Json>> {
  readonly #now: () => number;
  readonly #checkSize: (state: SessionState) => void;
  /** State, replaced whole and only by one that fits into the cookie. */
  #state: SessionState | undefined;
  #isChanged = false;
  #isSent = false;

  constructor(
    state: SessionState | undefined,
    now: () => number,
    checkSize: (state: SessionState) => void,
  ) {
    this.#state = state;
    this.#now = now;
    this.#checkSize = checkSize;
  }

  /** Secret of this session until it is regenerated; undefined while it is empty. */
  get id(): string | undefined {
    return this.#state?.id;
  }

  get<Key extends keyof Data & string>(key: Key): Data[Key] | undefined {
    const data = this.#state?.data;
    return data !== undefined && Object.hasOwn(data, key) ? (data[key] as Data[Key]) : undefined;
  }

  /** Keeps a copy of any JSON value; throws `SESSION_TOO_LARGE` and then changes nothing. */
  set<Key extends keyof Data & string>(key: Key, value: Data[Key]): void {
    const copy = JSON.parse(jsonText(value as Json)) as Json;
    const state = this.#begun();
    const data = Object.entries(state.data).filter(([name]) => name !== key);
    this.#replace({ ...state, data: Object.fromEntries([...data, [key, copy]]) });
  }

  delete(key: keyof Data & string): void {
    if (this.#state === undefined) return;
    const data = Object.entries(this.#state.data).filter(([name]) => name !== key);
    this.#replace({ ...this.#state, data: Object.fromEntries(data) });
  }

  /** Ends the session: its cookie is removed. */
  clear(): void {
    if (this.#state !== undefined) this.#replace(undefined);
  }

  /** Gives the session a new id. Call it at every log-in, or somebody else may know the id. */
  regenerate(): void {
    this.#replace({ ...this.#begun(), ...begin(this.#now()) });
  }

  /** Decides whether the session outlives the browser. */
  remember(isRemembered: boolean): void {
    this.#replace({ ...this.#begun(), isRemembered });
  }

  /** Leaves a message for the next {@link takeFlash}, in this request or a later one. */
  flash({ kind, text }: FlashMessage): void {
    const state = this.#begun();
    // A client that sends many forms and loads no page in between would fill the cookie.
    this.#replace({ ...state, flash: [...state.flash.slice(1 - flashMax), { kind, text }] });
  }

  takeFlash(): readonly FlashMessage[] {
    if (this.#state === undefined || this.#state.flash.length === 0) return [];
    const { flash } = this.#state;
    this.#replace({ ...this.#state, flash: [] });
    return flash;
  }

  /** Gives the state to be sent; from now on nothing can be changed. */
  close(): { readonly state: SessionState | undefined; readonly isChanged: boolean } {
    this.#isSent = true;
    return { state: this.#state, isChanged: this.#isChanged };
  }

  #begun(): SessionState {
    const empty = { isRemembered: false, data: {}, flash: [] };
    return this.#state ?? { ...begin(this.#now()), ...empty };
  }

  #replace(state: SessionState | undefined): void {
    check(!this.#isSent, 'session', 'changed before the answer is sent', 'a change after it');
    if (state !== undefined) this.#checkSize(state);
    this.#state = state;
    this.#isChanged = true;
  }
}

function begin(now: number): Pick<SessionState, 'id' | 'startedAt' | 'usedAt'> {
  return { id: randomBytes(16).toString('base64url'), startedAt: now, usedAt: now };
}
