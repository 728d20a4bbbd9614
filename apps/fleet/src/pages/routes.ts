import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sessionOf, wantsPage } from 'spillway-http';
import { errorPage } from 'spillway-http/kit';
import { loginAgain, refusedForm, typedIn } from './login.ts';
import type { PageContext } from './pages.ts';
import {
  frameOf,
  type PageSession,
  type Shown,
  userOfSession,
  Visit,
  type Visitors,
} from './visit.ts';

/** One page, and the form that is sent to its address if there is one. */
export interface Page {
  /** Visitors that are let in; others are asked to log in, or refused. @default 'all' */
  readonly for?: Visitors;
  /** True if browsers must not keep the page. @default false */
  readonly noStore?: boolean;
  readonly get?: (visit: Visit) => Answer | Promise<Answer>;
  readonly post?: (visit: Visit) => Promise<Answer>;
}

/** Pages by their addresses. */
export type Pages = Readonly<Record<string, Page>>;

type Answer = Shown | FastifyReply;

export function addPage(app: FastifyInstance, context: PageContext, url: string, page: Page): void {
  const { get, post, for: wanted = 'all', noStore = false } = page;
  const answer = (make: (visit: Visit) => Answer | Promise<Answer>) => {
    return async (request: FastifyRequest, reply: FastifyReply) => {
      const visit = new Visit(context, request, reply);
      const isNobody = wanted !== 'all' && visit.person === undefined;
      if (isNobody && typedIn(visit).length > 0) return visit.framed(loginAgain(visit, 401));
      const refusal = visit.refusalFor(wanted);
      if (refusal !== undefined) return refusal;
      if (noStore) reply.headers({ 'cache-control': 'no-store', expires: '0' });
      // A reply that was sent already resolves to undefined.
      const shown: Shown | undefined = await make(visit);
      return shown === undefined ? reply : visit.framed(shown);
    };
  };
  const config = { lane: context.lanes.pages };
  if (get !== undefined) app.get(url, { config }, answer(get));
  if (post === undefined) return;
  const change = async (visit: Visit) => {
    const shown = await post(visit);
    // Open pages show the change at once.
    context.feed.touch();
    return shown;
  };
  app.post(url, { config: { ...config, primaryOnly: true } }, answer(change));
}

/** Sends failures as pages in the frame of the fleet. */
export function pageErrors(app: FastifyInstance, context: PageContext): void {
  app.setErrorHandler(async (error, request, reply) => {
    if (reply.sent || reply.raw.destroyed) return reply;
    const failure = app.noteFailure(error, reply);
    const { status, code, message: detail, headers } = failure;
    reply.code(status).headers({ ...headers, 'cache-control': 'no-store' });
    if (!wantsPage(request.headers.accept)) {
      const { id } = request;
      return reply.send({ ok: false, error: { code, message: detail, id } });
    }
    if (code === 'CSRF_REFUSED') {
      // The token is checked before the session is read.
      const session = sessionOf<PageSession>(request);
      request.person = (await userOfSession(context.users, session)) ?? null;
      const visit = new Visit(context, request, reply);
      return reply.send(visit.framed(refusedForm(visit, status)));
    }
    const seconds = Number(headers['retry-after']);
    const retrySeconds = request.method === 'GET' && seconds > 0 ? seconds : undefined;
    const frame = frameOf(new Visit(context, request, reply));
    const links = [{ name: 'All runs', href: '/tests' }];
    if (request.person === null) links.push({ name: 'Log in', href: '/login' });
    const title = code === 'RECORD_UNKNOWN' ? detail : undefined;
    const page = errorPage({
      status,
      code,
      title,
      requestId: request.id,
      retrySeconds,
      frame,
      links,
      ...(title === undefined && { detail }),
    });
    return reply.send(page);
  });
}
