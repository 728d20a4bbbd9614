import type { FastifyInstance } from 'fastify';
import { html } from 'spillway-http';
import { ago, button, decimal, pageHead, tabs } from 'spillway-http/kit';
import type { Contributor, ContributorTable } from '../contributors/contributor-tables.ts';
import { type ListColumn, listing, numbers, searchForm, texts } from './listing.ts';
import type { PageContext } from './pages.ts';
import { addPage, type Shown, type Visit } from './visit.ts';

/** Totals of what people gave, of all time and of the last month. */
export function contributorPages(app: FastifyInstance, context: PageContext): void {
  for (const [path, which] of [
    ['/contributors', 'contributors'],
    ['/contributors/monthly', 'top_month'],
  ] as const) {
    addPage(app, context, path, { get: (visit) => contributorsPage(context, visit, which) });
  }
}

async function contributorsPage(
  { contributors, clock }: PageContext,
  { query, person, signal }: Visit,
  which: ContributorTable,
): Promise<Shown> {
  const rows = (await contributors.list(which, signal)).map((one, at) => ({
    ...one,
    rank: at + 1,
  }));
  const isMonth = which === 'top_month';
  const path = isMonth ? '/contributors/monthly' : '/contributors';
  const isFindMe = Number(query.findme) === 1;
  const me = isFindMe ? person?.username : undefined;
  const wanted = (query.search || query.highlight || me || '').toLowerCase();
  const total = (of: (one: Contributor) => number) => rows.reduce((sum, one) => sum + of(one), 0);
  const links = [
    { name: 'All time', href: '/contributors', current: !isMonth },
    { name: 'Last 30 days', href: '/contributors/monthly', current: isMonth },
  ];
  const href = `${path}?findme=${isFindMe ? '' : 1}`;
  const mine = person && button({ label: 'Find me', href, pressed: isFindMe });
  const tools = html`${searchForm({ path, query, name: 'search', label: 'Find a person' })}${mine}`;
  const games = decimal(total((one) => one.games));
  const hours = decimal(total((one) => one.cpu_hours));
  const list = listing({
    id: 'contributors',
    title: 'Contributors',
    columns: contributorColumns(clock.now()),
    rows,
    key: ({ username }) => username,
    path,
    query,
    pageSize: 100,
    hasAll: true,
    order: ['cpu_hours', true],
    isMarked: ({ username }) => username.toLowerCase() === wanted,
    tools,
    nothing: 'People whose machines played games are listed here. They are counted each hour.',
  });
  const main = html`${pageHead({
    title: 'Contributors',
    about: html`<span class="quiet">${games} games in ${hours} hours of cores</span>`,
    actions: tabs('Time', links),
  })}${list}`;
  return { title: 'Contributors', place: '/contributors', main };
}

function contributorColumns(now: number): ListColumn<Contributor & { readonly rank: number }>[] {
  return [
    { name: 'Rank', numeric: true, heads: false, cell: ({ rank }) => decimal(rank), fold: 'away' },
    texts('Person', 'username', ({ username }) => username.toLowerCase(), {
      heads: true,
      cell: ({ username }) => html`<a href="/tests/user/${username}">${username}</a>`,
    }),
    numbers('Hours of cores', 'cpu_hours', ({ cpu_hours }) => cpu_hours),
    numbers('Games', 'games', ({ games }) => games),
    numbers('Games an hour', 'games_per_hour', ({ games_per_hour }) => games_per_hour),
    numbers('Runs', 'tests', ({ tests }) => tests),
    numbers('Last games', 'last_updated', ({ last_updated }) => last_updated, {
      cell: ({ last_updated }) => (last_updated === 0 ? '–' : ago(now - last_updated)),
    }),
  ];
}
