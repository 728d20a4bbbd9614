import type { FastifyReply, FastifyRequest } from 'fastify';

/** Prefix of some cookies, and the parameters of addresses that they keep. */
type Remembered = readonly [prefix: string, names: readonly string[]];

const tasks: Remembered = ['tasks_', ['sort', 'order', 'q', 'view']];
const findMe: Remembered = ['contributors_', ['findme']];
/** Choices that are kept, by the page: the cookies have the names that fishtest gives them. */
const byPage: Readonly<Record<string, Remembered>> = {
  '/tests': ['', ['active_run_filters']],
  '/tests/machines': ['machines_', ['sort', 'order', 'page', 'q', 'my_workers']],
  '/tests/view/:id': tasks,
  '/tests/tasks/:id': tasks,
  '/contributors': findMe,
  '/contributors/monthly': findMe,
  '/nns': ['', ['master_only']],
};
const keptSeconds = 400 * 86_400;
const lengthMax = 200;

/**
 * Remembers in cookies how a visitor filters and sorts lists. An address with a parameter of its
 * page is a new choice; one without any gets the last choice.
 */
export function rememberChoices(request: FastifyRequest, reply: FastifyReply): void {
  const [page = '', isLive] = request.routeOptions.url?.split('/_live') ?? [];
  const [prefix, names] = byPage[page] ?? ['', []];
  if (names.length === 0) return;
  const query = request.query as Record<string, unknown>;
  if (names.some((name) => name in query)) {
    if (isLive !== undefined) return;
    for (const name of names) keep(reply, `${prefix}${name}`, [query[name]].flat().at(-1));
    return;
  }
  const cookies = request.server.parseCookie(request.headers.cookie ?? '');
  // A task that is looked for must not be hidden by an old filter.
  for (const name of 'show_task' in query ? [] : names) {
    const value = cookies[`${prefix}${name}`];
    if (value && value !== '0' && value !== 'false') query[name] = value;
  }
}

/** Sets a cookie that scripts may read; without a value it is removed. */
export function keep(reply: FastifyReply, name: string, value: unknown): void {
  // A character that is cut in two could not be encoded.
  const text = String(value ?? '')
    .slice(0, lengthMax)
    .toWellFormed();
  const maxAge = text === '' ? 0 : keptSeconds;
  reply.setCookie(name, text, { path: '/', sameSite: 'lax', maxAge });
}
