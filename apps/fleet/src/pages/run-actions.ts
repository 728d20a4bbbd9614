import type { FastifyInstance } from 'fastify';
import { type Html, html } from 'spillway-http';
import {
  button,
  card,
  choice,
  type DialogOptions,
  dialog,
  field,
  pageHead,
  tick,
  wrongFields,
} from 'spillway-http/kit';
import { fleetError } from '../errors.ts';
import type { Run } from '../world/run.ts';
import type { PageContext } from './pages.ts';
import { runUrl } from './run-cells.ts';
import { runOf } from './run-page.ts';
import type { RunRole } from './run-view.ts';
import { addPage, attempt, goTo, type Shown, tokenField, type Visit } from './visit.ts';

interface RunAction {
  readonly name: 'approve' | 'pause' | 'stop' | 'purge' | 'delete';
  readonly title: string;
  readonly text: string;
  readonly cancel: string;
  readonly confirm: string;
  readonly danger?: boolean;
  readonly done: string;
}

const actions: readonly RunAction[] = [
  {
    name: 'approve',
    title: 'Approve this run?',
    text: 'Workers will play it as soon as one is free.',
    cancel: 'Not yet',
    confirm: 'Approve the run',
    done: 'is approved',
  },
  {
    name: 'pause',
    title: 'Pause this run?',
    text: 'Workers get no more tasks of it until it is approved again.',
    cancel: 'Let it run',
    confirm: 'Pause the run',
    done: 'is paused',
  },
  {
    name: 'stop',
    title: 'Stop this run?',
    text: 'Its workers are given other work. The games so far are kept.',
    cancel: 'Let it run',
    confirm: 'Stop the run',
    danger: true,
    done: 'has been stopped',
  },
  {
    name: 'purge',
    title: 'Purge this run?',
    text: 'The games of the worker that is most unlike the others are set aside and played again.',
    cancel: 'Keep all games',
    confirm: 'Purge the run',
    danger: true,
    done: 'is purged',
  },
  {
    name: 'delete',
    title: 'Delete this run?',
    text: 'It is shown in no list any more. Its page stays at its address.',
    cancel: 'Keep it',
    confirm: 'Delete the run',
    danger: true,
    done: 'has been deleted',
  },
];

const throughputs = [10, 25, 50, 100, 200];

/** The forms that change a run: each goes through the table of operations. */
export function runActions(app: FastifyInstance, context: PageContext): void {
  for (const { name, done } of actions) {
    addPage(app, context, `/tests/${name}`, {
      for: 'user',
      post: async (visit) => {
        const id = visit.form['run-id'] ?? '';
        const run = await runOf(context, id, visit.signal);
        const input = { id, ...(name === 'stop' && { message: 'User stop' }) };
        const { problem } = await attempt(context, visit, `run-${name}`, input);
        const to = problem === undefined && name === 'stop' ? '/tests' : runUrl(id);
        return goTo(visit, to, problem ?? `${run.args.new_tag} ${done}.`);
      },
    });
  }
  addPage(app, context, '/tests/modify', {
    for: 'user',
    get: async (visit) => {
      const run = await runOf(context, visit.query.id ?? '', visit.signal);
      const { username } = run.args;
      if (!visit.isApprover && username !== visit.person?.username) {
        throw fleetError('ACTION_FORBIDDEN', `Only ${username} or an approver can do this`);
      }
      return modifyPage(visit, run, {});
    },
    post: async (visit) => {
      const { form } = visit;
      const run = await runOf(context, form.run ?? '', visit.signal);
      const isOwner = run.args.username === visit.person?.username;
      const input = {
        id: run.id,
        num_games: form['num-games'],
        priority: form.priority,
        throughput: form.throughput,
        auto_purge: form.auto_purge !== undefined,
        ...(isOwner && form.info !== undefined && { info: form.info }),
      };
      const { faults } = await attempt(context, visit, 'run-modify', input);
      if (faults === undefined) {
        return goTo(visit, runUrl(run.id), `${run.args.new_tag} was changed.`);
      }
      const { '': whole, num_games: games = whole, ...others } = faults;
      return modifyPage(visit, run, { ...others, ...(games && { 'num-games': games }) });
    },
  });
}

/** The dialogs that the buttons of a run's page open. */
export function runDialogs(visit: Visit, run: Run, role: RunRole): Html | undefined {
  if (role !== 'approver' && role !== 'owner') return undefined;
  const token = { csrf_token: visit.reply.csrfToken() };
  const asked = actions.filter(({ name }) => name !== 'approve' || role === 'approver');
  const questions = asked.map(({ name, title, text, cancel, confirm, danger }) => {
    const options: DialogOptions = {
      id: name,
      title,
      cancel,
      confirm,
      danger,
      body: html`<p>${text}</p>`,
      action: `/tests/${name}`,
      fields: { ...token, 'run-id': run.id },
    };
    return dialog(options);
  });
  const modify = dialog({
    id: 'modify',
    title: 'Modify this run',
    body: html`<div class="form">${modifyFields(visit, run, {})}</div>`,
    action: '/tests/modify',
    fields: { ...token, run: run.id },
    cancel: 'Leave it',
    confirm: 'Modify the run',
  });
  return html`${questions}${modify}`;
}

function modifyFields(
  { form, person }: Visit,
  { args }: Run,
  errors: Readonly<Record<string, string>>,
): Html {
  const value = (name: string, now: string | number) => form[name] ?? String(now);
  const common = (name: string, label: string) => ({ name, label, error: errors[name] });
  const throughput = value('throughput', args.throughput);
  const shares = [...new Set([...throughputs.map(String), throughput])];
  const isOwner = args.username === person?.username;
  return html`${field({
    ...common('num-games', 'Games'),
    value: value('num-games', args.num_games),
    hint: 'A multiple of 1,000.',
    numeric: true,
  })}
${field({
  ...common('priority', 'Priority'),
  value: value('priority', args.priority),
  hint: 'Above 0 needs a new approval.',
  numeric: true,
})}
${choice({
  ...common('throughput', 'Throughput'),
  value: throughput,
  choices: shares.map((share) => [share, `${share} %`] as const),
})}
${tick({
  name: 'auto_purge',
  label: 'Purge by itself',
  checked: form.run === undefined ? args.auto_purge : form.auto_purge !== undefined,
})}
${
  isOwner &&
  html`<div class="wide">${field({
    ...common('info', 'Text for people'),
    value: value('info', args.info),
    rows: 3,
  })}</div>`
}`;
}

function modifyPage(visit: Visit, run: Run, errors: Readonly<Record<string, string>>): Shown {
  const body = html`<form class="form" method="post" action="/tests/modify">
${tokenField(visit.reply)}<input type="hidden" name="run" value="${run.id}">
${modifyFields(visit, run, errors)}
<div class="row wide">${button({ label: 'Modify the run', look: 'main' })}
<a href="${runUrl(run.id)}">Leave it</a></div></form>`;
  const title = `Modify ${run.args.new_tag}`;
  const main = html`${pageHead({ title })}${wrongFields(errors)}
${card({ id: 'modify', title: 'What may change', body })}`;
  const isWrong = Object.keys(errors).length > 0;
  return { title, place: '/tests', main, status: isWrong ? 422 : 200 };
}
