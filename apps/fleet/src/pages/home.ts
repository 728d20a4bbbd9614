import type { FastifyInstance } from 'fastify';
import { type Html, type HtmlValue, html } from 'spillway-http';
import {
  button,
  card,
  decimal,
  duration,
  empty,
  group,
  sparkline,
  stats,
  table,
  tabs,
  unknown,
} from 'spillway-http/kit';
import { type QueryTexts, queryTexts } from '../read/answers.ts';
import { finishedFilters } from '../read/stored-runs.ts';
import type { RunRecord } from '../world/records.ts';
import { byProgress, byUrgency, type Run } from '../world/run.ts';
import { type FleetSample, homeFinished } from './figures.ts';
import { firstSteps, sampleCard } from './first-steps.ts';
import { hrefOf, listing, pageIn, toLastPage } from './listing.ts';
import type { PageContext } from './pages.ts';
import { userOf } from './people.ts';
import type { Pages } from './routes.ts';
import { activeColumns, finishedColumns, kindOf, waitingColumns } from './run/cells.ts';
import { isFragment, Visit } from './visit.ts';

const pageSize = 25;
/** Finished runs that a search covers, for visitors without and with an account. */
const searchMax = { anonymous: 1_000, user: 10_000 } as const;
/** Kinds of active runs that can be hidden, in three groups; fishtest has the same names. */
const kinds = {
  'Kinds of tests': { sprt: 'SPRT', spsa: 'SPSA', numgames: 'Games' },
  'Time controls': { stc: 'STC', ltc: 'LTC' },
  Threads: { st: 'One thread', smp: 'SMP' },
} as const;
const allKinds: readonly string[] = Object.values(kinds).flatMap(Object.keys);

/** Lists of runs: `/tests` is live, see {@link homePage}. */
export const homePages: Pages = {
  '/': { get: (visit) => visit.goTo('/tests') },

  '/tests/finished': {
    get: async (visit) => {
      const { query, context, signal } = visit;
      const isSearch = query.mode === 'search';
      if (!isSearch && (query.user || query.text)) {
        return visit.goTo(hrefOf('/tests/finished', { ...query, mode: 'search' }));
      }
      const cap = searchMax[visit.person === undefined ? 'anonymous' : 'user'];
      const { runs, total } = isSearch
        ? await searchRuns(context, query, cap, signal)
        : await filteredRuns(context, query, signal);
      const more = html`<input class="input" name="user" value="${query.user ?? ''}"
 aria-label="Submitter" placeholder="Submitter">${button({ label: 'Find' })}`;
      const head = { actions: searchRun(query.text, more) };
      const main = finishedCard(context, runs, { query, total, path: '/tests/finished' });
      const shown = { title: 'Finished runs', place: '/tests', head, main };
      return toLastPage(visit, '/tests/finished', total, pageSize) ?? shown;
    },
  },

  '/tests/user/:name': {
    noStore: true,
    get: async (visit) => {
      const { query, context, signal } = visit;
      const { username: user } = await userOf(visit);
      await context.figures.refresh();
      const { runs, total } = await filteredRuns(context, { ...query, user }, signal);
      const own = context.figures.unfinished.filter(({ args }) => args.username === user);
      const main = html`<div class="stack">${waitingCard(context, own)}${activeCard(context, own)}
${finishedCard(context, runs, { query, total, path: `/tests/user/${user}` })}</div>`;
      return { title: `Runs of ${user}`, place: '/tests', main };
    },
  },
};

/** `/tests`: figures of the fleet, and all runs that wait, are played or ended last. */
export function homePage(app: FastifyInstance, context: PageContext): void {
  const { figures, feed } = context;
  app.livePage('/tests', {
    states: [feed],
    key: (request) => shownKinds(queryTexts(request.query)),
    view: (shown) => homeView(context, shown),
    page: (view, request, reply) => {
      const visit = new Visit(context, request, reply);
      const isEmpty = figures.unfinished.length === 0 && figures.finished.total === 0;
      const add = button({ label: 'New run', href: '/tests/run', look: 'main' });
      const head = { actions: html`${searchRun()}${add}` };
      const main = html`${view}${isEmpty && visit.isApprover && sampleCard(visit)}`;
      reply.headers({ 'cache-control': 'no-store', expires: '0' });
      return visit.framed({ title: 'Runs', place: '/tests', head, main, live: true });
    },
    route: {
      config: { lane: context.lanes.pages },
      preHandler: async (request, reply) => {
        const query = queryTexts(request.query);
        await figures.refresh();
        const page = pageIn(query);
        if (page > 1) return reply.redirect(`/tests/finished?page=${page}`);
        if (query.live !== 'run_tables') return;
        if (!isFragment(request)) return reply.redirect('/tests');
        const isOver = figures.unfinished.length === 0;
        return reply.code(isOver ? 286 : 200).send(homeView(context, shownKinds(query)));
      },
    },
  });
}

/** The kinds of active runs to show, separated by commas; all if none is named. */
function shownKinds({ active_run_filters: chosen = '' }: QueryTexts): string {
  const named = chosen.split(',');
  const shown = allKinds.filter((kind) => named.includes(kind));
  return shown.length === 0 && chosen !== 'none' ? String(allKinds) : String(shown);
}

/** A field that finds finished runs; other inputs may stand beside it. */
function searchRun(text = '', more?: HtmlValue): Html {
  return html`<form class="head-search" action="/tests/finished" role="search">
<input type="hidden" name="mode" value="search">
<input class="input search" type="search" name="text" value="${text}"
 aria-label="Find a finished run by branch, person or text"
 placeholder="Find a run  ( / )">${more}</form>`;
}

/** The live part of the home page: figures, and all tables of runs. */
function homeView(context: PageContext, shown: string): Html {
  const { figures } = context;
  const runs = figures.unfinished;
  const { total, runs: finished } = figures.finished;
  if (runs.length === 0 && total === 0) return firstSteps();
  return html`<div class="stack">${figureRow(context)}
${waitingCard(context, runs)}${activeCard(context, runs, shown)}
${finishedCard(context, finished, { query: {}, total, path: '/tests/finished', isHome: true })}
</div>`;
}

function figureRow({ figures }: PageContext): Html {
  const { machines, cores, gamesPerMinute, nps, hours } = figures.now;
  const { today, acceptedToday } = figures.finished;
  const { samples } = figures;
  const trend = (of: (sample: FleetSample) => number, name: string) => {
    const values = samples.map(of).map((value) => (Number.isFinite(value) ? value : 0));
    return values.length < 3
      ? undefined
      : sparkline({ values, label: `${name} over the last day` });
  };
  const active = figures.unfinished.filter(({ record }) => record.workers > 0).length;
  const perCore = cores === 0 ? undefined : nps / cores / 1e6;
  const isIdle = !Number.isFinite(hours);
  return stats([
    {
      name: 'Machines',
      value: decimal(machines),
      note: machines === 0 ? 'none is connected' : 'at work now',
      trend: trend((one) => one.machines, 'Machines'),
    },
    {
      name: 'Cores',
      value: decimal(cores),
      note: `on ${active} ${active === 1 ? 'run' : 'runs'}`,
      trend: trend((one) => one.cores, 'Cores'),
    },
    {
      name: 'Games a minute',
      value: decimal(gamesPerMinute),
      note: `${decimal(gamesPerMinute * 60)} an hour`,
      trend: trend((one) => one.gamesPerMinute, 'Games a minute'),
    },
    {
      name: 'Speed',
      value: decimal(nps / 1e6, nps < 1e8 ? 1 : 0),
      unit: 'M nodes/s',
      note: perCore === undefined ? 'no core at work' : `${decimal(perCore, 2)} M a core`,
    },
    {
      name: 'Time left',
      value: isIdle ? unknown : duration(hours * 3_600_000),
      note: isIdle ? 'nobody plays' : 'for all runs together',
    },
    {
      name: 'Finished today',
      value: decimal(today),
      note: `${decimal(acceptedToday)} accepted, ${decimal(today - acceptedToday)} not`,
    },
  ]);
}

function waitingCard({ clock }: PageContext, runs: readonly Run[]): Html | undefined {
  const waiting = runs.filter(({ record }) => record.workers === 0).sort(byUrgency);
  if (waiting.length === 0) return undefined;
  const pending = waiting.filter(({ record }) => !record.approved).length;
  return card({
    id: 'waiting',
    title: 'Waiting',
    about: decimal(waiting.length),
    tools: pending > 0 && html`<span class="quiet small">${pending} for an approver</span>`,
    flush: true,
    body: table({
      label: 'Runs that wait',
      columns: waitingColumns(clock.now()),
      rows: waiting.map(({ record }) => record),
      key: ({ _id }) => _id,
    }),
  });
}

function activeCard({ clock }: PageContext, runs: readonly Run[], kept?: string): Html {
  const all = runs.filter(({ record }) => record.workers > 0);
  const shown = kept?.split(',') ?? allKinds;
  const rows = all
    .filter(({ record }) => kindsOf(record).every((kind) => shown.includes(kind)))
    .sort(byProgress);
  const isFiltered = rows.length < all.length;
  const nothing = empty({
    title: isFiltered ? 'No run of these kinds is played now' : 'Nothing is played now',
    text: isFiltered
      ? 'Others are.'
      : 'Runs that have an approval are played as soon as a worker asks for one.',
    actions: isFiltered && button({ label: 'Show all', href: kindsHref(allKinds) }),
  });
  return card({
    id: 'active',
    title: 'Active',
    about: isFiltered ? `${decimal(rows.length)} of ${decimal(all.length)}` : decimal(all.length),
    tools: kept !== undefined && html`${kindSwitches(shown)}`,
    flush: true,
    body:
      rows.length === 0
        ? nothing
        : table({
            label: 'Runs that are played',
            columns: activeColumns(clock.now()),
            rows: rows.map(({ record }) => record),
            key: ({ _id }) => _id,
          }),
  });
}

function kindsOf(record: RunRecord): string[] {
  const { sprt, spsa, threads } = record.args;
  const test = spsa === undefined ? (sprt === undefined ? 'numgames' : 'sprt') : 'spsa';
  return [test, kindOf(record).startsWith('STC') ? 'stc' : 'ltc', threads > 1 ? 'smp' : 'st'];
}

/** The address for these kinds; an empty parameter shows all. */
function kindsHref(shown: readonly string[]): string {
  const isAll = shown.length === allKinds.length;
  return `/tests?active_run_filters=${isAll ? '' : shown.join() || 'none'}`;
}

/** Buttons that narrow each group to some of its kinds; none is pressed while all are shown. */
function kindSwitches(shown: readonly string[]): Html[] {
  return Object.entries(kinds).map(([label, words]) => {
    const names = Object.keys(words);
    const own = names.filter((kind) => shown.includes(kind));
    const others = shown.filter((kind) => !names.includes(kind));
    const pressed = own.length === names.length ? [] : own;
    const buttons = Object.entries(words).map(([kind, word]) => {
      const next = names.filter((one) => pressed.includes(one) !== (one === kind));
      const href = kindsHref([...others, ...(next.length === 0 ? names : next)]);
      return button({ label: word, href, little: true, pressed: pressed.includes(kind) });
    });
    return group(label, buttons);
  });
}

interface FinishedChoice {
  readonly query: QueryTexts;
  readonly total: number;
  readonly path: string;
  /** True on the home page, which shows fewer than a page of the list. @default false */
  readonly isHome?: boolean;
}

const resultTabs = [
  ['All', {}],
  ['Accepted', { success_only: '1' }],
  ['Rejected, ahead', { yellow_only: '1' }],
  ['Long time control', { ltc_only: '1' }],
] as const;

function finishedCard(
  { clock }: PageContext,
  runs: readonly RunRecord[],
  { query, total, path, isHome = false }: FinishedChoice,
): Html {
  const { success_only, yellow_only, ltc_only, page: _page, ...rest } = query;
  const chosen = { success_only, yellow_only, ltc_only };
  const links = resultTabs.map(([name, filter]) => ({
    name,
    href: hrefOf(path, { ...rest, ...filter }),
    current: hrefOf('', chosen) === hrefOf('', filter),
  }));
  return listing({
    id: 'finished',
    title: 'Finished',
    plural: 'finished runs',
    tools: tabs('Results', links),
    columns: finishedColumns(clock.now()),
    rows: runs,
    key: ({ _id }) => _id,
    dense: false,
    path,
    query,
    pageSize: isHome ? homeFinished : pageSize,
    total,
    ...(isHome && { nextHref: `${path}?page=1` }),
    names: ['Newer', 'Older'],
    none: 'No such run',
    nothing: 'A run is listed here when it has ended, with its result.',
  });
}

async function filteredRuns({ source }: PageContext, query: QueryTexts, signal: AbortSignal) {
  const filters = finishedFilters(query, query.user);
  const [runs, total] = await Promise.all([
    source.finished({ ...filters, page: pageIn(query) - 1, pageSize }, signal),
    source.countFinished(filters, signal),
  ]);
  return { runs: [...runs], total };
}

/** Searches the newest runs for a part of the submitter's name and for words. */
async function searchRuns(
  { source }: PageContext,
  query: QueryTexts,
  cap: number,
  signal: AbortSignal,
) {
  const asked = Number(query.max_count);
  const max = asked >= 1 ? Math.min(asked, cap) : cap;
  const filters = finishedFilters(query);
  const user = (query.user ?? '').toLowerCase();
  const words = (query.text ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const found: RunRecord[] = [];
  for (let page = 0; page * 500 < max; page += 1) {
    const options = { ...filters, page, pageSize: 500 };
    const batch = [...(await source.finished(options, signal))];
    for (const record of batch) if (matches(record, user, words)) found.push(record);
    if (batch.length < 500) break;
  }
  const first = (pageIn(query) - 1) * pageSize;
  return { runs: found.slice(first, first + pageSize), total: found.length };
}

function matches({ args }: RunRecord, user: string, words: readonly string[]): boolean {
  if (!args.username.toLowerCase().includes(user)) return false;
  const text = `${args.new_tag} ${args.base_tag} ${args.username} ${args.info}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
