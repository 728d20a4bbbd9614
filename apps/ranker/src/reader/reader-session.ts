import type { FastifyReply, FastifyRequest } from 'fastify';
import { SpillwayError } from 'spillway';
import { sessionOf, wantsPage } from 'spillway-http';
import { rankerError } from '../errors.ts';
import type { User } from '../storage/users.ts';

/** A user as a session knows them. */
export type ReaderUser = Pick<User, 'id' | 'name'>;

/** The session's data between requests. */
interface SessionData {
  readonly user: ReaderUser;
}

/** True if somebody has logged in. */
export function isKnown(request: FastifyRequest): boolean {
  return sessionOf<SessionData>(request).get('user') !== undefined;
}

/** The user who has logged in; throws `KEY_NEEDED` if nobody has. */
export function userOf(request: FastifyRequest): ReaderUser {
  const user = sessionOf<SessionData>(request).get('user');
  if (user === undefined) throw rankerError('KEY_NEEDED', 'log in with your API key first');
  return user;
}

/** Begins a session of its own for the user. */
export function logIn(request: FastifyRequest, user: ReaderUser, isRemembered: boolean): void {
  const session = sessionOf<SessionData>(request);
  session.clear();
  session.regenerate();
  session.set('user', { id: user.id, name: user.name });
  session.remember(isRemembered);
}

/**
 * Does what a form asks for. A browser goes back to the page with a message, also when it is
 * refused; a script gets 204 or the error itself.
 */
export async function answerForm(
  reply: FastifyReply,
  back: string,
  work: () => Promise<string>,
): Promise<FastifyReply> {
  const { request } = reply;
  const isPage = wantsPage(request.headers.accept);
  try {
    const text = await work();
    if (isPage) request.session.flash({ kind: 'info', text });
  } catch (error) {
    if (!isPage || !(error instanceof SpillwayError)) throw error;
    request.session.flash({ kind: 'error', text: error.message });
  }
  return isPage ? reply.redirect(back, 303) : reply.code(204).send();
}

/** The page that a form was on, if it is one of ours. */
export function backOf(body: unknown): string {
  const back = Object(body).back;
  return typeof back === 'string' && /^\/reader(?:$|[/?][\w\-.~!$&'()*+,;=:@/?%]*$)/.test(back)
    ? back
    : '/reader';
}
