import { type Html, html } from 'spillway-http';
import { ago, button, decimal, group, meter, state, unknown } from 'spillway-http/kit';
import type { QueryTexts } from '../../read/answers.ts';
import {
  crashResidual,
  type Residuals,
  residualColor,
  residuals,
} from '../../statistics/run-statistics.ts';
import type { Run, Task } from '../../world/run.ts';
import { crashOrTime } from '../../world/world.ts';
import { hrefOf, type ListColumn, listing, numbers, searchForm, texts } from '../listing.ts';
import { pairBars } from './pair-bars.ts';

const views = ['all', 'active', 'unusual'] as const;
const sorts = ['idx', 'worker', 'cores', 'played', 'time', 'crashes', 'residual', 'last_updated'];

interface TaskRow {
  readonly task: Task;
  readonly residual: number;
  readonly isUnusual: boolean;
}

/** The valid parameters of an address that select and sort tasks. */
export function taskChoice(query: QueryTexts): QueryTexts {
  const { sort = '', order, q = '', view = '', page = '', show_task = '' } = query;
  const isAscending = order === 'asc';
  const choice = {
    sort: sorts.includes(sort) ? sort : isAscending ? 'idx' : '',
    order: isAscending ? 'asc' : '',
    q: q.trim().slice(0, 60).toLowerCase(),
    view: view === 'active' || view === 'unusual' ? view : '',
    page: /^[1-9]\d{0,6}$/.test(page) ? page : '',
    show_task: /^\d{1,7}$/.test(show_task) ? show_task : '',
  };
  return Object.fromEntries(Object.entries(choice).filter(([, value]) => value !== ''));
}

export interface TaskTableOptions {
  readonly now: number;
  /** True if links to games are shown. */
  readonly isUser: boolean;
  /** Path of the page that shows the table. */
  readonly path: string;
}

/** One page of the tasks of a run, with the deviation of each worker from the others. */
export function taskCard(run: Run, choice: QueryTexts, options: TaskTableOptions): Html {
  const found = residuals(run.totals.rows);
  const rows = run.tasks.map((task) => rowOf(task, found));
  const unusual = rows.filter(({ isUnusual }) => isUnusual).length;
  const path = `${options.path}#tasks`;
  return listing({
    id: 'tasks',
    title: 'Tasks',
    about: `${decimal(run.tasks.length)}, of which ${decimal(run.activeTasks.size)} run`,
    tools: tools(choice, unusual, path),
    columns: columns(run, found, options),
    rows: rows.filter((row) => isShown(row, choice)),
    key: ({ task }) => task.id,
    path,
    query: choice,
    pageSize: 25,
    order: ['idx', true],
    isMarked: ({ task }) => String(task.id) === choice.show_task,
    isOdd: ({ isUnusual }) => isUnusual,
    remark: Number.isNaN(found.p) ? '' : ` · all workers alike: p = ${decimal(found.p, 3)}`,
    none: run.tasks.length === 0 ? 'No tasks yet' : 'No such task',
    nothing: 'A task is a share of the games that was given to one worker.',
  });
}

function tools(choice: QueryTexts, unusual: number, path: string): Html {
  const names = { all: 'All', active: 'Running', unusual: `Unusual ${unusual || ''}` };
  const { view: current = 'all', page: _page, show_task: _task, ...rest } = choice;
  const buttons = views.map((view) =>
    button({
      label: names[view],
      href: hrefOf(path, { ...rest, view: view === 'all' ? undefined : view }),
      little: true,
      pressed: view === current,
    }),
  );
  const search = searchForm(path, choice, { name: 'q', label: 'Find tasks by worker' });
  return html`${search}${group('Which tasks', buttons)}`;
}

function rowOf(task: Task, found: Residuals): TaskRow {
  const isTroubled = crashOrTime(task.record.stats);
  const own = found.byKey.get(task.record.worker_info.unique_key) ?? Infinity;
  const residual = isTroubled ? crashResidual : own;
  const isOff = Number.isFinite(own) && residualColor(own, found) === 'red';
  return { task, residual, isUnusual: isTroubled || isOff };
}

function isShown({ task, isUnusual }: TaskRow, { q = '', view }: QueryTexts): boolean {
  if (view === 'active' && !task.active) return false;
  if (view === 'unusual' && !isUnusual) return false;
  return task.name.toLowerCase().includes(q);
}

function columns(
  run: Run,
  found: Residuals,
  { now, isUser }: TaskTableOptions,
): ListColumn<TaskRow>[] {
  const trouble = (name: string, sort: string, by: (row: TaskRow) => number) =>
    numbers(name, sort, by, {
      cell: (row) => html`<span class="${by(row) === 0 ? 'quiet' : 'bad'}">${by(row)}</span>`,
    });
  const residualCell = ({ residual }: TaskRow) => {
    if (!Number.isFinite(residual)) return unknown;
    const colour = residual === crashResidual ? 'red' : residualColor(residual, found);
    const text = decimal(residual, 2);
    if (colour === 'green') return text;
    return state(colour === 'red' ? 'error' : 'warn', text, 'bare');
  };
  return [
    numbers('Task', 'idx', ({ task }) => task.id, {
      cell: ({ task }) => taskName(run, task, isUser),
    }),
    texts('Worker', 'worker', ({ task }) => task.name, {
      fold: 'whole',
      cell: ({ task }) => html`<a class="nowrap" href="/workers/${task.name}">${task.name}</a>`,
    }),
    numbers('Cores', 'cores', ({ task }) => task.record.worker_info.concurrency),
    numbers('Games', 'played', ({ task }) => task.games, {
      numeric: false,
      fold: 'whole',
      cell: ({ task }) => html`<span class="games">
${meter({ share: task.games / task.record.num_games, thin: true })}
<span class="figures">${decimal(task.games)} / ${decimal(task.record.num_games)}</span></span>`,
    }),
    {
      name: 'Pairs',
      fold: 'away',
      cell: ({ task }) => pairBars(task.record.stats),
    },
    trouble('Timeouts', 'time', ({ task }) => task.record.stats.time_losses),
    trouble('Crashes', 'crashes', ({ task }) => task.record.stats.crashes),
    numbers('Residual', 'residual', ({ residual }) => (Number.isFinite(residual) ? residual : -1), {
      cell: residualCell,
    }),
    numbers('Last seen', 'last_updated', ({ task }) => task.record.last_updated, {
      cell: ({ task }) => (task.active ? ago(now - task.record.last_updated) : 'done'),
    }),
  ];
}

function taskName(run: Run, task: Task, isUser: boolean): Html | string {
  const hasGames = isUser && task.games > 0 && run.args.spsa === undefined;
  if (!hasGames) return String(task.id);
  const href = `/api/pgn/${run.id}-${task.id}.pgn`;
  return html`<a href="${href}" title="Games of this task">${task.id}</a>`;
}
