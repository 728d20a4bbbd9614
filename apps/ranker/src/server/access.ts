import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SpillwayError } from 'spillway';
import { sessionOf, wantsPage } from 'spillway-http';
import { rankerError } from '../errors.ts';
import type { UserChanges } from '../ranking/ranking-parts.ts';
import type { User, Users } from '../storage/users.ts';

/** A user as sessions know them. */
export type ReaderUser = Pick<User, 'id' | 'name'>;

declare module 'fastify' {
  interface FastifyRequest {
    /** The owner of the request's key or session, in routes that ask for one. */
    rankerUser: ReaderUser;
    /** The page that a form was on. */
    formPage: string | undefined;
  }
}

/** The session's data between requests. */
interface SessionData {
  readonly user: ReaderUser;
}

/** The user of the session; undefined before a log-in. */
export function sessionUser(request: FastifyRequest): ReaderUser | undefined {
  return sessionOf<SessionData>(request).get('user');
}

/** Begins a new session for the user. */
export function logIn(request: FastifyRequest, user: ReaderUser, isRemembered: boolean): void {
  const session = sessionOf<SessionData>(request);
  session.clear();
  session.regenerate();
  session.set('user', { id: user.id, name: user.name });
  session.remember(isRemembered);
}

/** Accepts requests with a user's key; with `orSession` also those of a logged-in session. */
export function requireUser(app: FastifyInstance, users: Users, orSession: boolean): void {
  app.decorateRequest('rankerUser');
  app.addHook('onRequest', async (request, reply) => {
    const isSession = orSession && !isByKey(request);
    admit(request, reply, isSession ? sessionUser(request) : await byKey(request, users));
    reply.header('cache-control', 'no-store');
  });
}

/** Accepts requests of a logged-in session; redirects other browsers to the login page. */
export function requireLogin(app: FastifyInstance): void {
  app.decorateRequest('rankerUser');
  app.addHook('onRequest', async (request, reply): Promise<unknown> => {
    const user = sessionUser(request);
    const isPage = request.method === 'GET' && wantsPage(request.headers.accept);
    if (isPage && user === undefined) return reply.redirect('/reader/login', 303);
    admit(request, reply, user);
    return undefined;
  });
}

function admit(request: FastifyRequest, reply: FastifyReply, user: ReaderUser | undefined): void {
  if (user === undefined) {
    reply.header('www-authenticate', 'Bearer realm="ranker"');
    const why = isByKey(request) ? 'this one is not known' : 'there is none';
    throw rankerError('KEY_NEEDED', `send your key as "Authorization: Bearer <key>": ${why}`);
  }
  request.rankerUser = user;
}

function isByKey({ headers }: FastifyRequest): boolean {
  return headers.authorization !== undefined;
}

async function byKey({ headers, permit }: FastifyRequest, users: Users): Promise<User | undefined> {
  const [, key] = /^bearer +(\S{1,200}) *$/i.exec(headers.authorization ?? '') ?? [];
  return key === undefined ? undefined : await users.byKey(key, permit.signal);
}

const numberFields = ['at', 'points', 'score'];

/** Turns a form into the JSON that programs send: with numbers, without the fields of the page. */
export function takeForms(app: FastifyInstance): void {
  app.decorateRequest('formPage');
  app.addHook('preValidation', async (request) => {
    const type = request.headers['content-type'] ?? '';
    if (!type.startsWith('application/x-www-form-urlencoded')) return;
    const { _csrf, back, ...fields } = Object(request.body) as Record<string, unknown>;
    for (const name of numberFields) {
      const text = String(fields[name] ?? '');
      if (/^-?\d{1,20}(\.\d{1,20})?$/.test(text)) fields[name] = Number(text);
      else if (text === '') delete fields[name];
    }
    request.body = fields;
    request.formPage = pageOf(back);
  });
}

/** The page that a form was on, if it is one of this server. */
function pageOf(back: unknown): string | undefined {
  const isOurs =
    typeof back === 'string' && /^\/reader(?:$|[/?][\w\-.~!$&'()*+,;=:@/?%]*$)/.test(back);
  return isOurs ? back : undefined;
}

/** The outcome of an operation: words for people, a value for programs. */
export interface Outcome {
  readonly told: string;
  /** @default an empty object */
  readonly result?: object | undefined;
  /** @default 200 */
  readonly status?: number | undefined;
}

/**
 * Runs an operation, and tells `changes` that the user's data may have changed. A browser is
 * redirected to a page with a message, also after a refusal; a program gets the result or error.
 */
export async function operate(
  reply: FastifyReply,
  page: string,
  work: (userId: string, signal: AbortSignal) => Promise<Outcome>,
  changes?: UserChanges,
): Promise<FastifyReply> {
  const { request } = reply;
  const isPage = !isByKey(request) && wantsPage(request.headers.accept);
  try {
    const { id } = request.rankerUser;
    const outcome = await work(id, request.permit.signal);
    changes?.tell(id, 'all');
    const { told, result = {}, status = 200 } = outcome;
    if (!isPage) return reply.code(status).send(result);
    request.session.flash({ kind: 'info', text: told });
  } catch (error) {
    if (!isPage || !(error instanceof SpillwayError)) throw error;
    request.session.flash({ kind: 'error', text: error.message });
  }
  return reply.redirect(request.formPage ?? page, 303);
}
