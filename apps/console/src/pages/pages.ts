import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BoundedMap } from 'spillway';
import { html, type State } from 'spillway-http';
import { errorPage } from 'spillway-http/kit';
import { advise } from '../advice.ts';
import type { View } from '../open.ts';
import { addActions } from './act.ts';
import { addApi } from './api.ts';
import { cookieName, framed, type Place, sessionOf, style } from './frame.ts';
import { addLaunch } from './launch.ts';
import { advisorView, errorsView, eventsView, lanesView, poolsView, routesView } from './lists.ts';
import { nowView } from './now.ts';

export interface PagesOptions {
  /** Changes with each look. */
  readonly shown: State<number>;
  readonly view: () => View;
  /** Tokens that open the console, each once. */
  readonly tokens: Set<string>;
}

const places: readonly Place[] = [
  { name: 'Now', path: '/', show: nowView },
  { name: 'Lanes', path: '/lanes', show: lanesView },
  { name: 'Pools', path: '/pools', show: poolsView },
  { name: 'Events', path: '/events', show: eventsView },
  {
    name: 'Errors',
    path: '/errors',
    show: errorsView,
    count: ({ services }) => services.reduce((sum, { errors }) => sum + errors.length, 0),
  },
  { name: 'Routes', path: '/routes', show: routesView },
  {
    name: 'Advisor',
    path: '/advisor',
    show: advisorView,
    count: ({ services }) => advise(services).length,
  },
];

const sessionsMax = 100;
const sessionMs = 30 * 86_400_000;

/** The pages of the console, for sessions that began with a link and its token. */
export function addPages(app: FastifyInstance, { shown, view, tokens }: PagesOptions): void {
  const sessions = new BoundedMap<string, true>({ countMax: sessionsMax });
  app.addHook('onRequest', async (request, reply) => {
    const { url } = request;
    if (url.startsWith('/_kit/') || url.startsWith('/-/') || url === style) return;
    const { token } = request.query as { readonly token?: string };
    if (token !== undefined && tokens.delete(token)) return enter(reply, sessions);
    if (!sessions.has(sessionOf(request))) return refuse(reply);
  });
  app.get(style, async (_request, reply) => {
    const text = await readFile(new URL('./browser/console.css', import.meta.url), 'utf8');
    return reply.type('text/css; charset=utf-8').header('cache-control', 'no-cache').send(text);
  });
  for (const place of places) {
    app.livePage(place.path, {
      states: [shown],
      key: (request) => serviceOf(request, view()),
      view: (service) => html`<div class="stack">${place.show(view(), service)}</div>`,
      page: (main) => framed(main, { view, places }, { place }),
    });
  }
  for (const add of [addActions, addApi, addLaunch]) add(app, { view, places });
}

/** The service that the page is about: the one asked for, if there is one of that name. */
function serviceOf(request: FastifyRequest, { services }: View): string {
  const { service = '' } = request.query as { readonly service?: string };
  return services.some(({ name }) => name === service) ? service : '';
}

function enter(reply: FastifyReply, sessions: BoundedMap<string, true>): FastifyReply {
  const session = randomBytes(24).toString('base64url');
  sessions.set(session, true);
  const rules = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${sessionMs / 1_000}`;
  return reply.header('set-cookie', `${cookieName}=${session}; ${rules}`).redirect('/');
}

function refuse(reply: FastifyReply): FastifyReply {
  const page = errorPage({
    status: 401,
    code: 'UNAUTHENTICATED',
    title: 'This console needs its link',
    text: 'Open the address that it printed; it works once. For a new one: npx console open',
  });
  return reply.code(401).type('text/html; charset=utf-8').send(String(page));
}
