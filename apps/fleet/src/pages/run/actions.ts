import { type Html, html } from 'spillway-http';
import { dialog } from 'spillway-http/kit';
import { fleetError } from '../../errors.ts';
import type { Question } from '../../operations/operation.ts';
import { operations } from '../../operations/operations.ts';
import type { QueryTexts } from '../../read/answers.ts';
import type { Run } from '../../world/run.ts';
import {
  capital,
  choicesOf,
  errorsOf,
  fieldsOf,
  formPage,
  inputOf,
  inputs,
  type Looks,
  throughputs,
  valuesIn,
} from '../form.ts';
import type { Page, Pages } from '../routes.ts';
import { type FieldErrors, runOf, type Visit } from '../visit.ts';
import { runUrl } from './cells.ts';
import type { RunRole } from './view.ts';

/** The operations on one run that a user confirms in a dialog. */
const actions: readonly (readonly [name: string, asks: Question])[] = [...operations].flatMap(
  ([name, { asks }]) => (asks === undefined ? [] : [[name.replace('run-', ''), asks] as const]),
);
const modifyFields = operations.get('run-modify')?.input;

/** The pages that change a run, each by an operation. */
export const runActionPages: Pages = {
  ...Object.fromEntries(actions.map(([name, { done }]) => [`/tests/${name}`, action(name, done)])),
  '/tests/modify': {
    for: 'user',
    get: async (visit) => {
      const run = await runOf(visit, visit.query.id ?? '');
      const { username } = run.args;
      if (!visit.isApprover && username !== visit.person?.username) {
        throw fleetError('ACTION_FORBIDDEN', `Only ${username} or an approver can do this`);
      }
      return modifyPage(visit, run, valuesIn(looksOf(visit, run), run.args));
    },
    post: async (visit) => {
      const { form } = visit;
      const run = await runOf(visit, form.run ?? '');
      const looks = looksOf(visit, run);
      const input = { id: run.id, ...inputOf(modifyFields, looks, form) };
      const { value, faults } = await visit.attempt('run-modify', input);
      if (faults === undefined) {
        const done = Object(value).changed ? 'was changed' : 'stays as it is';
        return visit.goTo(runUrl(run.id), `${run.args.new_tag} ${done}.`);
      }
      const { '': games, ...others } = faults;
      const named = games === undefined ? others : { num_games: games, ...others };
      return modifyPage(visit, run, form, errorsOf(looks, named));
    },
  },
};

/** The page to which a confirmed dialog posts. */
function action(name: string, done: string): Page {
  return {
    for: 'user',
    post: async (visit) => {
      const id = visit.form['run-id'] ?? '';
      const run = await runOf(visit, id);
      const input = { id, ...(name === 'stop' && { message: 'User stop' }) };
      const { problem } = await visit.attempt(`run-${name}`, input);
      const to = problem === undefined && name === 'stop' ? '/tests' : runUrl(id);
      return visit.goTo(to, problem ?? `${run.args.new_tag} ${done}.`);
    },
  };
}

/** The dialogs that the buttons of a run's page open. */
export function runDialogs(visit: Visit, run: Run, role: RunRole): Html | undefined {
  if (role !== 'approver' && role !== 'owner') return undefined;
  const token = { csrf_token: visit.reply.csrfToken() };
  const cancel = 'Leave it as it is';
  const asked = actions.filter(([name]) => name !== 'approve' || role === 'approver');
  const questions = asked.map(([name, { text, danger }]) => {
    const verb = capital(name);
    return dialog({
      id: name,
      title: `${verb} this run?`,
      cancel,
      confirm: `${verb} the run`,
      danger,
      body: html`<p>${text}</p>`,
      action: `/tests/${name}`,
      fields: { ...token, 'run-id': run.id },
    });
  });
  const looks = looksOf(visit, run);
  const fields = inputs(fieldsOf(modifyFields, looks), { values: valuesIn(looks, run.args) });
  const modify = dialog({
    id: 'modify',
    title: 'Modify this run',
    body: html`<div class="form">${fields}</div>`,
    action: '/tests/modify',
    fields: { ...token, run: run.id },
    cancel,
    confirm: 'Modify the run',
  });
  return html`${questions}${modify}`;
}

/** Fields of the form, with the names that they have in fishtest. */
function looksOf({ person }: Visit, { args }: Run): Looks {
  return {
    num_games: { name: 'num-games' },
    priority: {},
    throughput: { choices: choicesOf(String(args.throughput), throughputs, ' %') },
    auto_purge: {},
    ...(args.username === person?.username && { info: { rows: 3 } }),
  };
}

function modifyPage(visit: Visit, run: Run, values: QueryTexts, errors: FieldErrors = {}) {
  return formPage({
    visit,
    title: `Modify ${run.args.new_tag}`,
    place: '/tests',
    card: { id: 'modify', title: 'What may change' },
    action: '/tests/modify',
    hidden: { run: run.id },
    fields: fieldsOf(modifyFields, looksOf(visit, run)),
    values,
    errors,
    submit: 'Modify the run',
    beside: html`<a href="${runUrl(run.id)}">Leave it as it is</a>`,
  });
}
