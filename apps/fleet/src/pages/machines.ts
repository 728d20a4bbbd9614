import { html } from 'spillway-http';
import {
  ago,
  button,
  card,
  decimal,
  facts,
  hiddenFields,
  state,
  tabs,
  tick,
} from 'spillway-http/kit';
import { fleetError } from '../errors.ts';
import { operations } from '../operations/operations.ts';
import { workerOwner } from '../protocol/read-request.ts';
import type { Task } from '../world/run.ts';
import type { BlockedWorker } from '../world/world.ts';
import { timeText } from './events.ts';
import { fieldsOf, formPage } from './form.ts';
import { hrefOf, type ListColumn, listPage, numbers, prose, texts } from './listing.ts';
import { mailTo } from './people.ts';
import type { Pages } from './routes.ts';
import { runUrl } from './run/cells.ts';
import type { FieldErrors, Shown, Visit } from './visit.ts';

const recentMs = 5 * 86_400_000;

/** Machines at work, and workers that are blocked. */
export const machinePages: Pages = {
  '/tests/machines': { get: machinesPage },
  '/workers/show': { get: blockedPage },
  '/workers/:name': {
    for: 'user',
    noStore: true,
    get: (visit) => refusalOf(visit) ?? workerPage(visit),
    post: async (visit) => refusalOf(visit) ?? block(visit),
  },
};

function machinesPage(visit: Visit): Shown {
  const { query, person, context } = visit;
  const { primary, clock } = context;
  // The world keeps them from the longest silent on, so that the usual order is nearly there.
  const tasks = primary.isPrimary ? [...primary.world.active].reverse() : [];
  const mine = query.my_workers ? person?.username : undefined;
  const isShown = ({ active, record }: Task) =>
    active && (mine === undefined || record.worker_info.username === mine);
  const more =
    person !== undefined &&
    html`${tick({ name: 'my_workers', label: 'Only mine', checked: Boolean(mine), value: '1' })}
${button({ label: 'Show', little: true })}`;
  return listPage({
    visit,
    id: 'machines',
    pageTitle: 'Machines',
    title: 'Machines at work',
    columns: machineColumns(clock.now()),
    rows: tasks.filter(isShown),
    key: ({ run, id }) => `${run.id}-${id}`,
    path: '/tests/machines',
    pageSize: 100,
    order: ['last_active', true],
    search: { name: 'q', label: 'Worker, system or run', more },
    text: ({ name, run, record }) => {
      const { uname, worker_arch, compiler } = record.worker_info;
      return `${name} ${uname} ${worker_arch} ${compiler} ${run.args.new_tag}`;
    },
    nothing: 'A machine is listed here while it plays a task.',
  });
}

function machineColumns(now: number): ListColumn<Task>[] {
  const info = ({ record }: Task) => record.worker_info;
  const python = (task: Task) => info(task).python_version.join('.');
  return [
    texts('Machine', 'machine', ({ name }) => name, {
      cell: ({ name }) => html`<a class="nowrap" href="/workers/${name}">${name}</a>`,
    }),
    numbers('Cores', 'cores', (task) => info(task).concurrency),
    numbers('M nodes/s', 'mnps', (task) => info(task).nps, {
      cell: (task) => decimal(info(task).nps / 1e6, 2),
    }),
    numbers('RAM, MB', 'ram', (task) => info(task).max_memory, { fold: 'away' }),
    texts('Architecture', 'arch', (task) => info(task).worker_arch, {
      cell: (task) => html`<span class="mono small">${info(task).worker_arch}</span>`,
    }),
    texts('System', 'system', (task) => info(task).uname, {
      cell: (task) => html`<span class="cut system">${info(task).uname}</span>`,
    }),
    texts('Compiler', 'compiler', (task) => info(task).compiler, {
      fold: 'away',
      cell: (task) => `${info(task).compiler} ${info(task).gcc_version.join('.')}`,
    }),
    texts('Python', 'python', python, { fold: 'away' }),
    numbers('Version', 'worker', (task) => info(task).version, {
      fold: 'away',
      cell: (task) => `${info(task).version}${info(task).modified ? '*' : ''}`,
    }),
    texts('Works on', 'running_on', ({ run }) => run.args.new_tag, {
      fold: 'named',
      cell: ({ run, id }) =>
        html`<a href="${runUrl(run.id)}?show_task=${id}">${run.args.new_tag}</a>`,
    }),
    numbers('Last seen', 'last_active', ({ record }) => record.last_updated, {
      cell: ({ record }) => ago(now - record.last_updated),
    }),
  ];
}

type BlockedRow = BlockedWorker & { readonly name: string };

async function blockedPage(visit: Visit): Promise<Shown> {
  const { query, isApprover, context } = visit;
  const { primary, storage } = context;
  const blocked = primary.isPrimary ? primary.world.blocked : await storage.blocked();
  const users = isApprover ? await context.users.list() : [];
  const emails = new Map(users.map(({ username, email }) => [username, email]));
  const now = context.clock.now();
  const path = '/workers/show';
  const { filter = 'all-workers' } = query;
  const isShown = ({ last_updated }: BlockedRow) => {
    const isRecent = now - last_updated <= recentMs;
    return filter === 'le-5days' ? isRecent : filter !== 'gt-5days' || !isRecent;
  };
  const links = [
    ['All', 'all-workers'],
    ['Seen in the last 5 days', 'le-5days'],
    ['Not seen since', 'gt-5days'],
  ].map(([name = '', value = '']) => ({
    name,
    href: hrefOf(path, { filter: value }),
    current: value === filter,
  }));
  const mail = ({ name }: BlockedRow) => {
    const address = emails.get(workerOwner(name) ?? '');
    const href = address && mailTo(address, { subject: `Your worker ${name}` });
    return href ? html`<a href="${href}">${address}</a>` : '–';
  };
  const columns: ListColumn<BlockedRow>[] = [
    texts('Worker', 'worker', ({ name }) => name, {
      cell: ({ name }) => html`<a href="/workers/${name}">${name}</a>`,
    }),
    numbers('Last asked', 'last_changed', ({ last_updated }) => last_updated, {
      cell: ({ last_updated }) => timeText(last_updated),
    }),
    { name: 'Message to its owner', cell: ({ message }) => prose(message), fold: 'whole' },
    ...(isApprover ? [{ name: 'E-mail', cell: mail } satisfies ListColumn<BlockedRow>] : []),
  ];
  return listPage({
    visit,
    id: 'blocked',
    title: 'Blocked workers',
    head: { actions: tabs('Which', links) },
    columns,
    rows: [...blocked].map(([name, worker]) => ({ name, ...worker })).filter(isShown),
    key: ({ name }) => name,
    path,
    pageSize: 25,
    hasAll: true,
    order: ['last_changed', true],
    search: { name: 'q', label: 'Worker', more: hiddenFields({ filter }) },
    text: ({ name }) => name,
    nothing: 'A worker that loses games on time or crashes can be blocked on its page.',
  });
}

/** The worker whose name is in the path, and its owner. */
function workerOf({ params }: Visit): { readonly name: string; readonly owner: string } {
  const { name = '' } = params;
  const owner = workerOwner(name);
  if (owner !== undefined) return { name, owner };
  throw fleetError('RECORD_UNKNOWN', `There is no worker ${name.slice(0, 100)}`);
}

/** Only the owner of a worker and approvers see its page. */
function refusalOf(visit: Visit) {
  const isOwner = workerOf(visit).owner === visit.person?.username;
  return isOwner ? undefined : visit.refusalFor('approver');
}

function workerPage(visit: Visit, errors?: FieldErrors): Shown {
  const { primary, clock } = visit.context;
  const { name, owner } = workerOf(visit);
  const { world } = primary;
  const blocked = world.blocked.get(name);
  const task = world.activeTask(name);
  const info = task?.record.worker_info;
  const about = facts([
    ['State', blocked ? state('error', 'Blocked', 'bare') : state('ok', 'Welcome', 'bare')],
    ['Owner', html`<a href="/tests/user/${owner}">${owner}</a>`],
    ['Last asked', blocked === undefined ? '–' : timeText(blocked.last_updated)],
    [
      'Works on',
      task === undefined
        ? 'nothing now'
        : html`<a href="${runUrl(task.run.id)}?show_task=${task.id}">${task.run.args.new_tag}</a>`,
    ],
    ['Last seen', task === undefined ? '–' : ago(clock.now() - task.record.last_updated)],
    ['System', info === undefined ? '–' : `${info.uname}, ${info.worker_arch}`],
    ['Events', html`<a href="/actions?text=${name}">Events of this worker</a>`],
  ]);
  return formPage({
    visit,
    title: name,
    place: '/tests/machines',
    crumbs: [{ name: 'Machines', href: '/tests/machines' }, { name }],
    card: { id: 'block', title: 'Block and message' },
    action: `/workers/${name}`,
    hidden: { submit: 'Submit' },
    fields: fieldsOf(operations.get('worker-block')?.input, {
      message: { rows: 4 },
      blocked: { label: 'Give this worker no tasks' },
    }),
    values: errors ? visit.form : { message: blocked?.message, blocked: blocked && 'on' },
    errors,
    submit: 'Save',
    aside: card({ id: 'about', title: 'About this worker', body: about }),
  });
}

async function block(visit: Visit) {
  const { name } = workerOf(visit);
  const isBlocked = visit.form.blocked !== undefined;
  const message = visit.form.message ?? '';
  const isNone = !isBlocked && !visit.context.primary.world.blocked.has(name);
  if (isNone) return visit.goTo(`/workers/${name}`);
  const input = { name, message, blocked: isBlocked };
  const { faults } = await visit.attempt('worker-block', input);
  if (faults !== undefined) return workerPage(visit, faults);
  const done = `${name} ${isBlocked ? 'gets no more tasks' : 'gets tasks again'}.`;
  return visit.goTo('/workers/show', done);
}
