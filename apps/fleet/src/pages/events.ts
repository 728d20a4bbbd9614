import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { type Html, html } from 'spillway-http';
import { button, card, choice, field } from 'spillway-http/kit';
import { patterns } from '../protocol/patterns.ts';
import type { QueryTexts } from '../read/answers.ts';
import type { ActionRow } from '../storage/fleet-schema.ts';
import { actionWords } from '../world/records.ts';
import { type ListColumn, listing, pageIn, prose, toLastPage } from './listing.ts';
import type { Pages } from './routes.ts';
import { runUrl } from './run/cells.ts';
import type { Visit } from './visit.ts';

const pageSize = 25;
/** Events on all pages of the list, for visitors without and with an account. */
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
export const eventPages: Pages = {
  '/actions': {
    get: async (visit) => {
      const { query, person } = visit;
      const cap = countMax[person === undefined ? 'anonymous' : 'user'];
      const asked = Number(query.max_count);
      const max = asked >= 1 ? Math.min(Math.floor(asked), cap) : cap;
      const { rows, total } = await search(visit, max);
      const main = html`<div class="stack">${filterCard(query)}
${listing({
  id: 'events',
  title: 'Events',
  about: null,
  columns,
  rows,
  key: ({ id }) => id,
  path: '/actions',
  query,
  pageSize,
  total,
  order: ['time', query.order !== 'asc'],
  remark: total >= max ? ' or more' : '',
  names: ['Newer', 'Older'],
  none: 'No such event',
  nothing: 'Everything that people and workers do to runs, users and nets is listed here.',
})}</div>`;
      const shown = { title: 'Events', place: '/actions', main };
      return toLastPage(visit, '/actions', total, pageSize) ?? shown;
    },
  },
};

async function search(
  { context, query, signal }: Visit,
  max: number,
): Promise<{ readonly rows: ActionRow[]; readonly total: number }> {
  const { kysely } = context.storage.database;
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

/** True if a column contains the text, in upper or lower case. */
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
${text('user', 'User')}${text('text', 'Words')}${text('run_id', 'Run ID')}
<div class="row wide">${button({ label: 'Find', look: 'main' })}
<a href="/actions">Show all</a></div></form>`;
  return card({ id: 'filter', title: 'Find events', body });
}

const columns: readonly ListColumn<ActionRow>[] = [
  { name: 'Time', sort: 'time', cell: timeCell },
  { name: 'Event', sort: 'event', cell: ({ action }) => words.get(action) ?? action },
  { name: 'By', sort: 'source', cell: ({ username }) => personLink(username) },
  { name: 'About', sort: 'target', cell: targetOf, fold: 'named' },
  {
    name: 'Comment',
    sort: 'comment',
    fold: 'whole',
    cell: ({ message }) => prose(message ?? ''),
  },
];

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
