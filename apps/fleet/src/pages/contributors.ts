import type { FastifyInstance } from 'fastify';
import { html } from 'spillway-http';
import { ago, button, decimal, pageHead, tabs } from 'spillway-http/kit';
import type { Contributor, ContributorTable } from '../contributors/contributor-tables.ts';
import { type ListColumn, listing, searchForm } from './listing.ts';
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
  const name = query.findme !== undefined ? (person?.username ?? '') : (query.search ?? '');
  const wanted = name.toLowerCase() || (query.highlight ?? '').toLowerCase();
  const total = (of: (one: Contributor) => number) => rows.reduce((sum, one) => sum + of(one), 0);
  const links = [
    { name: 'All time', href: '/contributors', current: !isMonth },
    { name: 'Last 30 days', href: '/contributors/monthly', current: isMonth },
  ];
  const mine = person && button({ label: 'Find me', href: `${path}?findme=1` });
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
    {
      name: 'Person',
      sort: 'username',
      heads: true,
      by: ({ username }) => username.toLowerCase(),
      cell: ({ username }) => html`<a href="/tests/user/${username}">${username}</a>`,
    },
    {
      name: 'Hours of cores',
      numeric: true,
      sort: 'cpu_hours',
      by: ({ cpu_hours }) => cpu_hours,
      cell: ({ cpu_hours }) => decimal(cpu_hours),
    },
    {
      name: 'Games',
      numeric: true,
      sort: 'games',
      by: ({ games }) => games,
      cell: ({ games }) => decimal(games),
    },
    {
      name: 'Games an hour',
      numeric: true,
      sort: 'games_per_hour',
      by: ({ games_per_hour }) => games_per_hour,
      cell: ({ games_per_hour }) => decimal(games_per_hour),
    },
    {
      name: 'Runs',
      numeric: true,
      sort: 'tests',
      by: ({ tests }) => tests,
      cell: ({ tests }) => decimal(tests),
    },
    {
      name: 'Last games',
      numeric: true,
      sort: 'last_updated',
      by: ({ last_updated }) => last_updated,
      cell: ({ last_updated }) => (last_updated === 0 ? '–' : ago(now - last_updated)),
    },
  ];
}
