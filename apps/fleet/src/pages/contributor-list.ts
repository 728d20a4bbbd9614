import { html } from 'spillway-http';
import { ago, button, decimal, tabs } from 'spillway-http/kit';
import type { Contributor, ContributorTable } from '../contributors/contributors.ts';
import { type ListColumn, listPage, numbers, texts } from './listing.ts';
import type { Pages } from './routes.ts';
import type { Shown, Visit } from './visit.ts';

/** Totals of what people gave, of all time and of the last month. */
export const contributorPages: Pages = {
  '/contributors': { get: (visit) => contributorsPage(visit, 'contributors') },
  '/contributors/monthly': { get: (visit) => contributorsPage(visit, 'top_month') },
};

async function contributorsPage(visit: Visit, which: ContributorTable): Promise<Shown> {
  const { query, person, signal, context } = visit;
  const given = await context.contributors.list(which, signal);
  const isMonth = which === 'top_month';
  const path = isMonth ? '/contributors/monthly' : '/contributors';
  const isFindMe = Number(query.findme) === 1;
  const me = isFindMe ? person?.username : undefined;
  const wanted = (query.search || query.highlight || me || '').toLowerCase();
  const total = (of: (one: Contributor) => number) => given.reduce((sum, one) => sum + of(one), 0);
  const links = [
    { name: 'All time', href: '/contributors', current: !isMonth },
    { name: 'Last 30 days', href: '/contributors/monthly', current: isMonth },
  ];
  const href = `${path}?findme=${isFindMe ? '' : 1}`;
  const games = decimal(total((one) => one.games));
  const hours = decimal(total((one) => one.cpu_hours));
  return {
    ...listPage({
      visit,
      id: 'contributors',
      title: 'Contributors',
      head: {
        about: html`<span class="quiet">${games} games in ${hours} core hours</span>`,
        actions: tabs('Time', links),
      },
      columns: contributorColumns(context.clock.now()),
      rows: given.map((one, at) => ({ ...one, rank: at + 1 })),
      key: ({ username }) => username,
      path,
      pageSize: 100,
      hasAll: true,
      order: ['cpu_hours', true],
      isMarked: ({ username }) => username.toLowerCase() === wanted,
      search: { name: 'search', label: 'Find a person' },
      beside: person && button({ label: 'Find me', href, pressed: isFindMe }),
      nothing: 'People whose machines played games are listed here. They are counted each hour.',
    }),
    place: '/contributors',
  };
}

function contributorColumns(now: number): ListColumn<Contributor & { readonly rank: number }>[] {
  return [
    { name: 'Rank', numeric: true, heads: false, cell: ({ rank }) => decimal(rank), fold: 'away' },
    texts('Person', 'username', ({ username }) => username.toLowerCase(), {
      heads: true,
      cell: ({ username }) => html`<a href="/tests/user/${username}">${username}</a>`,
    }),
    numbers('Core hours', 'cpu_hours', ({ cpu_hours }) => cpu_hours),
    numbers('Games', 'games', ({ games }) => games),
    numbers('Games an hour', 'games_per_hour', ({ games_per_hour }) => games_per_hour),
    numbers('Runs', 'tests', ({ tests }) => tests),
    numbers('Last games', 'last_updated', ({ last_updated }) => last_updated, {
      cell: ({ last_updated }) => (last_updated === 0 ? '–' : ago(now - last_updated)),
    }),
  ];
}
