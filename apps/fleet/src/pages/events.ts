import type { FastifyInstance } from 'fastify';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { type Html, html } from 'spillway-http';
import { button, card, choice, field, pageHead } from 'spillway-http/kit';
import { patterns } from '../protocol/patterns.ts';
import type { QueryTexts } from '../read/answers.ts';
import type { ActionRow } from '../storage/fleet-schema.ts';
import { actionWords } from '../world/records.ts';
import { hrefOf, pageCard, pageIn } from './listing.ts';
import type { PageContext } from './pages.ts';
import { runUrl } from './run-cells.ts';
import { addPage, goTo } from './visit.ts';

const pageSize = 25;
/** Events that can be leafed through, for strangers and for users. */
const countMax = { anonymous: 5_000, user: 50_000 } as const;
const hidden = ['system_event', 'dead_task'];
const words = new Map<string, string>(Object.entries(actionWords));
const sorts: ReadonlyMap<string, keyof ActionRow> = new Map([
  ['time', 'time'],
  ['event', 'action'],
  ['source', 'username'],
  ['target', 'run'],
  ['comment', 'message'],
]);

/** `/actions`: everything that was done, by whom and to what. */
export function eventPages(app: FastifyInstance, context: PageContext): void {
  addPage(app, context, '/actions', {
    get: async (visit) => {
      const { query, person, signal } = visit;
      const cap = countMax[person === undefined ? 'anonymous' : 'user'];
      const asked = Number(query.max_count);
      const max = asked >= 1 ? Math.min(Math.floor(asked), cap) : cap;
      const { rows, total } = await search(context, query, max, signal);
      const last = Math.max(1, Math.ceil(total / pageSize));
      if (pageIn(query) > last) {
        return goTo(visit, hrefOf('/actions', { ...query, page: String(last) }));
      }
      const main = html`${pageHead({ title: 'Events' })}
<div class="stack">${filterCard(query)}${eventCard(query, rows, { total, max })}</div>`;
      return { title: 'Events', place: '/actions', main };
    },
  });
}

async function search(
  { storage }: PageContext,
  query: QueryTexts,
  max: number,
  signal: AbortSignal,
): Promise<{ readonly rows: ActionRow[]; readonly total: number }> {
  const { kysely } = storage.database;
  let found = kysely.selectFrom('actions');
  const { action, user, text, run_id, before } = query;
  found = action ? found.where('action', '=', action) : found.where('action', 'not in', hidden);
  if (user) found = found.where(contains('username', user));
  if (text) {
    const columns = ['message', 'run', 'worker', 'user', 'nn'] as const;
    found = found.where((build) => build.or(columns.map((column) => contains(column, text))));
  }
  if (run_id && patterns.runId.test(run_id))
    found = found.where('run_id', '=', run_id.toLowerCase());
  if (before && Number.isFinite(Number(before))) found = found.where('time', '<=', Number(before));
  const column = sorts.get(query.sort ?? 'time') ?? 'time';
  const direction = query.order === 'asc' ? 'asc' : 'desc';
  const limited = found.select('id').limit(max).as('found');
  const first = (pageIn(query) - 1) * pageSize;
  const page = found.selectAll().orderBy(column, direction).orderBy('id', direction);
  const [rows, { count }] = await Promise.all([
    page
      .offset(first)
      .limit(Math.max(0, Math.min(pageSize, max - first)))
      .execute({ signal }),
    kysely
      .selectFrom(limited)
      .select(({ fn }) => fn.countAll<number | string>().as('count'))
      .executeTakeFirstOrThrow({ signal }),
  ]);
  return { rows, total: Number(count) };
}

/** A column has the text somewhere, in whatever case. */
function contains(column: keyof ActionRow, text: string): RawBuilder<SqlBool> {
  const literal = text
    .toLowerCase()
    .replaceAll('\0', '')
    .replaceAll(/[\\%_]/g, '\\$&');
  return sql<SqlBool>`lower(${sql.ref(column)}) like ${`%${literal}%`} escape '\\'`;
}

function filterCard(query: QueryTexts): Html {
  const text = (name: string, label: string) => field({ name, label, value: query[name] });
  const choices = [['', 'All but routine'] as const, ...words];
  const body = html`<form class="form" action="/actions" role="search">
${choice({ name: 'action', label: 'Event', value: query.action ?? '', choices })}
${text('user', 'By whom')}${text('text', 'Words')}${text('run_id', 'Number of the run')}
<div class="row wide">${button({ label: 'Find', look: 'main' })}
<a href="/actions">Show all</a></div></form>`;
  return card({ id: 'filter', title: 'Find events', body });
}

function eventCard(
  query: QueryTexts,
  rows: readonly ActionRow[],
  { total, max }: { readonly total: number; readonly max: number },
): Html {
  const href = (to: QueryTexts) => hrefOf('/actions', { ...query, page: undefined, ...to });
  return pageCard({
    id: 'events',
    title: 'Events',
    dense: true,
    rows,
    key: ({ id }) => id,
    sorted: { by: query.sort ?? 'time', descending: query.order !== 'asc' },
    sortHref: (by, descending) => href({ sort: by, order: descending ? 'desc' : 'asc' }),
    columns: [
      { name: 'Time', sort: 'time', cell: timeCell },
      { name: 'Event', sort: 'event', cell: ({ action }) => words.get(action) ?? action },
      { name: 'By', sort: 'source', cell: ({ username }) => personLink(username) },
      { name: 'About', sort: 'target', cell: targetOf, fold: 'named' },
      {
        name: 'Comment',
        sort: 'comment',
        fold: 'whole',
        cell: ({ message }) => html`<span class="comment">${message ?? ''}</span>`,
      },
    ],
    page: pageIn(query),
    pageSize,
    total,
    remark: total >= max ? ' or more' : '',
    pageHref: (page) => href({ page: String(page) }),
    names: ['Newer', 'Older'],
    nothing: {
      title: 'No such event',
      text: 'Everything that people and workers do to runs, users and nets is listed here.',
      actions: button({ label: 'Show all', href: '/actions' }),
    },
  });
}

function timeCell({ time }: ActionRow): Html {
  return html`<span class="nowrap figures">${timeText(time * 1000)}</span>`;
}

/** UNIX milliseconds as `2026-11-17 06:20:31`, in UTC. */
export function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}

function personLink(username: string): Html {
  const isPerson = patterns.username.test(username);
  return isPerson ? html`<a href="/tests/user/${username}">${username}</a>` : html`${username}`;
}

function targetOf({ run_id, run, task_id, worker, user, nn }: ActionRow): Html {
  if (run_id !== null) {
    const task = task_id === null ? '' : `?show_task=${task_id}`;
    const name = task_id === null ? run : `${run} / ${task_id}`;
    return html`<a href="${runUrl(run_id)}${task}">${name}</a>`;
  }
  if (worker !== null) return html`${worker}`;
  return html`${user ?? nn ?? ''}`;
}
