import type { FastifyInstance, FastifyRequest } from 'fastify';
import { BoundedMap } from 'spillway';
import { type Html, html } from 'spillway-http';
import { card, decimal, pageHead } from 'spillway-http/kit';
import { fleetError } from '../../errors.ts';
import { type QueryTexts, queryTexts } from '../../read/answers.ts';
import type { Run } from '../../world/run.ts';
import { hrefOf } from '../listing.ts';
import type { PageContext } from '../pages.ts';
import { addPage } from '../routes.ts';
import { isApprover, isFragment, runOf, Visit } from '../visit.ts';
import { runDialogs } from './actions.ts';
import { runUrl, statePill } from './cells.ts';
import { chartCard } from './charts.ts';
import { rawStatisticsCards } from './statistics-cards.ts';
import { taskCard, taskChoice } from './tasks.ts';
import { measuresOf, type RunRole, runHead, runSummary } from './view.ts';

/** Runs of open pages that are kept after the world has dropped them. */
const shownMax = 16;
/** Ages on a page may be this many ms behind. */
const ageMsMax = 10_000;

function roleOf({ person }: FastifyRequest, run: Run): RunRole {
  if (person === null) return '';
  const isOwner = person.username === run.args.username;
  if (isApprover(person)) return isOwner ? 'owner' : 'approver';
  return isOwner ? 'owner' : 'user';
}

/** The runs that open pages show, and what they show of them. */
class ShownRuns {
  readonly #context: PageContext;
  readonly #runs = new BoundedMap<string, Run>({ countMax: shownMax });

  constructor(context: PageContext) {
    this.#context = context;
  }

  idOf({ params }: FastifyRequest): string {
    return (params as { id: string }).id.toLowerCase();
  }

  /** Brings the run of a request into memory, before its page is drawn. */
  async open(request: FastifyRequest): Promise<Run> {
    const { feed, primary, ancestry } = this.#context;
    const { signal } = request.permit;
    const run = await runOf({ context: this.#context, signal }, this.idOf(request));
    this.#runs.set(run.id, run);
    ancestry.look(run, request.person !== null);
    feed.freshen(primary.isPrimary ? ageMsMax : 0);
    return run;
  }

  known(id: string): Run {
    const { primary } = this.#context;
    const run = (primary.isPrimary ? primary.world.run(id) : undefined) ?? this.#runs.get(id);
    if (run === undefined) throw fleetError('RECORD_UNKNOWN', 'There is no run at this address');
    return run;
  }

  of(request: FastifyRequest): Run {
    return this.known(this.idOf(request));
  }

  /** The key of a view: run, role of the visitor, and which tasks are shown. */
  keyOf(request: FastifyRequest): string {
    const run = this.of(request);
    const choice = hrefOf('', taskChoice(queryTexts(request.query)));
    return `${run.id} ${roleOf(request, run)} ${choice}`;
  }

  view(key: string): Html {
    const [id = '', role = '', query = ''] = key.split(' ');
    const choice = Object.fromEntries(new URLSearchParams(query));
    return runView(this.#context, this.known(id), role as RunRole, choice);
  }
}

/** The page of a run, and the pages about its tasks and statistics. */
export function runPages(app: FastifyInstance, context: PageContext): void {
  const runs = new ShownRuns(context);
  const route = {
    config: { lane: context.lanes.pages },
    preHandler: async (request: FastifyRequest) => void (await runs.open(request)),
  };
  app.livePage('/tests/view/:id', {
    states: [context.feed],
    key: (request) => runs.keyOf(request),
    view: (key) => runs.view(key),
    page: (view, request, reply) => {
      const visit = new Visit(context, request, reply);
      const run = runs.of(request);
      const main = html`${view}${runDialogs(visit, run, roleOf(request, run))}`;
      const common = { title: run.args.new_tag, place: '/tests', head: null };
      return visit.framed({ ...common, main, live: !run.record.finished });
    },
    route,
  });
  app.get('/tests/view/:id/detail', route, async (request, reply) => {
    const run = runs.of(request);
    const { expected } = queryTexts(request.query);
    if (!isFragment(request)) return reply.redirect(runUrl(run.id), 302);
    // A script of fishtest calls a run that waits for a worker paused.
    const known = { waiting: 'paused', pending: 'pending' }[String(run.status)];
    if (known !== undefined && expected === known) return reply.code(204).send();
    return reply.code(run.record.finished ? 286 : 200).send(runs.view(runs.keyOf(request)));
  });
  app.livePage('/tests/live_elo/:id', {
    states: [context.feed],
    key: (request) => runs.idOf(request),
    view: (id) => gaugesView(runs.known(id)),
    page: (view, request, reply) => {
      const title = `Live Elo of ${runs.of(request).args.new_tag}`;
      const shown = { title, place: '/tests', head: null, main: view, live: true };
      return new Visit(context, request, reply).framed(shown);
    },
    route,
  });
  app.get('/tests/live_elo_update/:id', route, async (request, reply) => {
    const run = runs.of(request);
    const isOver = run.record.finished || run.args.sprt?.state !== '';
    return reply.code(isOver ? 286 : 200).send(gaugesView(run));
  });
  tablePages(app, context, runs);
}

/** The tasks and the raw statistics of a run, on pages of their own. */
function tablePages(app: FastifyInstance, context: PageContext, runs: ShownRuns): void {
  const place = '/tests';
  addPage(app, context, '/tests/tasks/:id', {
    get: async ({ request, query, person }) => {
      const run = await runs.open(request);
      const path = `/tests/tasks/${run.id}`;
      const options = { now: context.clock.now(), isUser: person !== undefined, path };
      const main = taskCard(run, taskChoice(query), options);
      const head = { title: 'Tasks', crumbs: crumbsOf(run) };
      return { title: `Tasks of ${run.args.new_tag}`, place, head, main };
    },
  });
  addPage(app, context, '/tests/stats/:id', {
    get: async ({ request, reply }) => {
      const run = await runs.open(request);
      if (isFragment(request) && run.record.finished) reply.code(286);
      const main = html`<div class="stack">${rawStatisticsCards(run)}</div>`;
      const head = { title: 'Raw statistics', crumbs: crumbsOf(run) };
      return { title: `Statistics of ${run.args.new_tag}`, place, head, main };
    },
  });
}

function crumbsOf({ args, id }: Run) {
  return [
    { name: 'Runs', href: '/tests' },
    { name: args.new_tag, href: runUrl(id) },
  ];
}

function runView(context: PageContext, run: Run, role: RunRole, choice: QueryTexts): Html {
  const { verdict, cards } = runSummary(context, run);
  const options = { now: context.clock.now(), isUser: role !== '', path: runUrl(run.id) };
  return html`<div class="stack">${runHead(run, role)}${verdict}
<div class="split">${chartCard(run) ?? html`<div></div>`}
<aside class="stack" aria-label="Result and settings">${cards}</aside>
${taskCard(run, choice, options)}</div></div>`;
}

/** The gauges of a sequential test. */
function gaugesView(run: Run): Html {
  if (run.args.sprt === undefined) {
    throw fleetError('RECORD_UNKNOWN', 'This run is no sequential test');
  }
  const head = { title: 'Live Elo', about: statePill(run.record), crumbs: crumbsOf(run) };
  const body = html`<div class="result">${measuresOf(run)}</div>`;
  const about = `${decimal(run.games)} games`;
  return html`<div class="stack">${pageHead(head)}
${card({ id: 'gauges', title: run.args.new_tag, about, body })}</div>`;
}
