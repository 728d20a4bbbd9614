import { type Html, html } from 'spillway-http';
import {
  ago,
  button,
  type Column,
  card,
  decimal,
  empty,
  group,
  meter,
  pager,
  pentanomial,
  state,
  table,
  unknown,
} from 'spillway-http/kit';
import type { QueryTexts } from '../read/answers.ts';
import {
  crashResidual,
  type Residuals,
  residualColor,
  residuals,
} from '../statistics/run-statistics.ts';
import type { Run, Task } from '../world/run.ts';
import { crashOrTime } from '../world/world.ts';
import { pairsOf } from './run-cells.ts';

const pageSize = 25;
const views = ['all', 'active', 'unusual'] as const;

/** The tasks that are shown, and their order. */
export interface TaskChoice {
  readonly sort: string;
  readonly isDescending: boolean;
  readonly q: string;
  readonly view: string;
  /** Counted from 1. */
  readonly page: number;
  /** A task that is marked, and whose page is shown. */
  readonly marked: number | undefined;
}

interface TaskRow {
  readonly task: Task;
  readonly residual: number;
  readonly isUnusual: boolean;
}

const sorts: Readonly<Record<string, (row: TaskRow) => number | string>> = {
  idx: ({ task }) => task.id,
  worker: ({ task }) => task.name,
  cores: ({ task }) => task.record.worker_info.concurrency,
  played: ({ task }) => task.games,
  time: ({ task }) => task.record.stats.time_losses,
  crashes: ({ task }) => task.record.stats.crashes,
  residual: ({ residual }) => (Number.isFinite(residual) ? residual : -1),
  last_updated: ({ task }) => task.record.last_updated,
};

export function taskChoice(query: QueryTexts): TaskChoice {
  const { sort = 'idx', order = 'desc', q = '', view = 'all', page = '1', show_task } = query;
  return {
    sort: sort in sorts ? sort : 'idx',
    isDescending: order !== 'asc',
    q: q.trim().slice(0, 60).toLowerCase(),
    view: (views as readonly string[]).includes(view) ? view : 'all',
    page: /^[1-9]\d{0,6}$/.test(page) ? Number(page) : 1,
    marked: /^\d{1,7}$/.test(show_task ?? '') ? Number(show_task) : undefined,
  };
}

/** The choice as the parameters of an address; usual values are left out. */
export function taskQuery(choice: TaskChoice, to: Partial<TaskChoice> = {}): string {
  const { sort, isDescending, q, view, page, marked } = { ...choice, ...to };
  const query = new URLSearchParams();
  if (sort !== 'idx') query.set('sort', sort);
  if (!isDescending) query.set('order', 'asc');
  if (q !== '') query.set('q', q);
  if (view !== 'all') query.set('view', view);
  if (page > 1) query.set('page', String(page));
  if (marked !== undefined) query.set('show_task', String(marked));
  return String(query);
}

export interface TaskTableOptions {
  readonly now: number;
  /** True if links to games are shown. */
  readonly isUser: boolean;
  /** Path of the page that shows the table. */
  readonly path: string;
}

/** The tasks of a run, a page of them, with how far each worker is off from the others. */
export function taskCard(run: Run, choice: TaskChoice, options: TaskTableOptions): Html {
  const found = residuals(run.totals.rows);
  const rows = run.tasks.map((task) => rowOf(task, found));
  const unusual = rows.filter(({ isUnusual }) => isUnusual).length;
  const shown = rows.filter((row) => isShown(row, choice));
  const key = sorts[choice.sort] as (row: TaskRow) => number | string;
  const sign = choice.isDescending ? -1 : 1;
  shown.sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    const order = left < right ? -1 : Number(left > right);
    return sign * (order || a.task.id - b.task.id);
  });
  const { marked } = choice;
  const place = marked === undefined ? -1 : shown.findIndex(({ task }) => task.id === marked);
  const last = Math.max(1, Math.ceil(shown.length / pageSize));
  const page = place >= 0 ? Math.floor(place / pageSize) + 1 : Math.min(choice.page, last);
  const href = (to: Partial<TaskChoice>) => {
    const query = taskQuery(choice, { page: 1, marked: undefined, ...to });
    return `${options.path}${query === '' ? '' : `?${query}`}#tasks`;
  };
  const part = shown.slice((page - 1) * pageSize, page * pageSize);
  const body = table({
    label: 'Table of tasks',
    dense: true,
    columns: columns(run, found, options),
    rows: part,
    key: ({ task }) => task.id,
    sorted: { by: choice.sort, descending: choice.isDescending },
    sortHref: (sort, isDescending) => href({ sort, isDescending }),
    tone: (row) => (row.task.id === marked ? 'here' : row.isUnusual ? 'bad' : undefined),
  });
  const first = (page - 1) * pageSize;
  const chance = Number.isNaN(found.p) ? '' : ` · all workers alike: p = ${decimal(found.p, 3)}`;
  const range = `${decimal(first + 1)} to ${decimal(first + part.length)}`;
  const pages = pager({
    label: 'Pages of tasks',
    words: `${range} of ${decimal(shown.length)}${chance}`,
    ...(page > 1 && { previous: href({ page: page - 1 }) }),
    ...(page < last && { next: href({ page: page + 1 }) }),
  });
  const isFiltered = choice.q !== '' || choice.view !== 'all';
  const nothing = empty({
    title: isFiltered ? 'No such task' : 'No tasks yet',
    text: 'A task is a share of the games that was given to one worker.',
    actions: isFiltered && button({ label: 'Show all', href: href({ q: '', view: 'all' }) }),
  });
  return card({
    id: 'tasks',
    title: 'Tasks',
    about: `${decimal(run.tasks.length)}, of which ${decimal(run.activeTasks.size)} run`,
    tools: tools(choice, href, { unusual, path: options.path }),
    flush: true,
    body: part.length === 0 ? nothing : html`${body}<div class="foot">${pages}</div>`,
  });
}

function tools(
  choice: TaskChoice,
  href: (to: Partial<TaskChoice>) => string,
  { unusual, path }: { readonly unusual: number; readonly path: string },
): Html {
  const names = { all: 'All', active: 'Running', unusual: `Unusual ${unusual || ''}` };
  const buttons = views.map((view) =>
    button({
      label: names[view],
      href: href({ view }),
      little: true,
      pressed: view === choice.view,
    }),
  );
  return html`<form class="row" action="${path}#tasks" role="search">
<input class="input search" type="search" name="q" value="${choice.q}"
 aria-label="Find tasks by worker" placeholder="Worker"></form>${group('Which tasks', buttons)}`;
}

function rowOf(task: Task, found: Residuals): TaskRow {
  const isTroubled = crashOrTime(task.record.stats);
  const own = found.byKey.get(task.record.worker_info.unique_key) ?? Infinity;
  const residual = isTroubled ? crashResidual : own;
  const isOff = Number.isFinite(own) && residualColor(own, found) === 'red';
  return { task, residual, isUnusual: isTroubled || isOff };
}

function isShown({ task, isUnusual }: TaskRow, { q, view }: TaskChoice): boolean {
  if (view === 'active' && !task.active) return false;
  if (view === 'unusual' && !isUnusual) return false;
  return q === '' || task.name.toLowerCase().includes(q);
}

function columns(run: Run, found: Residuals, options: TaskTableOptions): Column<TaskRow>[] {
  const { now, isUser } = options;
  const count = (value: number) =>
    value === 0 ? html`<span class="quiet">0</span>` : html`<span class="bad">${value}</span>`;
  const residualCell = ({ residual }: TaskRow) => {
    if (!Number.isFinite(residual)) return unknown;
    const colour = residual === crashResidual ? 'red' : residualColor(residual, found);
    const text = decimal(residual, 2);
    if (colour === 'green') return text;
    return state(colour === 'red' ? 'error' : 'warn', text, 'bare');
  };
  const all: Column<TaskRow>[] = [
    { name: 'Task', numeric: true, sort: 'idx', cell: ({ task }) => taskName(run, task, isUser) },
    {
      name: 'Worker',
      sort: 'worker',
      fold: 'whole',
      cell: ({ task }) => html`<a class="nowrap" href="/workers/${task.name}">${task.name}</a>`,
    },
    {
      name: 'Cores',
      numeric: true,
      sort: 'cores',
      cell: ({ task }) => decimal(task.record.worker_info.concurrency),
    },
    {
      name: 'Games',
      sort: 'played',
      fold: 'whole',
      cell: ({ task }) => html`<span class="games">
${meter({ share: task.games / task.record.num_games, thin: true })}
<span class="figures">${decimal(task.games)} / ${decimal(task.record.num_games)}</span></span>`,
    },
    {
      name: 'Pairs',
      fold: 'away',
      cell: ({ task }) => pentanomial(pairsOf(task.record.stats), 'small'),
    },
    {
      name: 'Lost on time',
      numeric: true,
      sort: 'time',
      cell: ({ task }) => count(task.record.stats.time_losses),
    },
    {
      name: 'Crashes',
      numeric: true,
      sort: 'crashes',
      cell: ({ task }) => count(task.record.stats.crashes),
    },
    { name: 'Residual', numeric: true, sort: 'residual', cell: residualCell },
    {
      name: 'Heard of',
      numeric: true,
      sort: 'last_updated',
      cell: ({ task }) => (task.active ? ago(now - task.record.last_updated) : 'done'),
    },
  ];
  return all;
}

function taskName(run: Run, task: Task, isUser: boolean): Html | string {
  const hasGames = isUser && task.games > 0 && run.args.spsa === undefined;
  if (!hasGames) return String(task.id);
  const href = `/api/pgn/${run.id}-${task.id}.pgn`;
  return html`<a href="${href}" title="Games of this task">${task.id}</a>`;
}
