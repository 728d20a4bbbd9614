import type { FastifyInstance } from 'fastify';
import { type Html, html } from 'spillway-http';
import {
  button,
  card,
  choice,
  field,
  hiddenFields,
  notice,
  pageHead,
  tabs,
  tick,
  wrongFields,
} from 'spillway-http/kit';
import type { ShownRun } from '../operations/run-operations.ts';
import { presets } from '../operations/submission-source.ts';
import type { QueryTexts } from '../read/answers.ts';
import type { Run } from '../world/run.ts';
import type { PageContext } from './pages.ts';
import { runUrl } from './run-cells.ts';
import { runOf } from './run-page.ts';
import { bounds, fieldNames, startValues, submissionOf, valuesOf } from './submit-values.ts';
import {
  addPage,
  attempt,
  type FieldErrors,
  goTo,
  type Shown,
  tokenField,
  type Visit,
} from './visit.ts';

/** Names of form fields, besides those of {@link fieldNames}, by the names of operations. */
const otherNames: Readonly<Record<string, string>> = {
  arch_filter: 'arch-filter',
  'sprt.elo0': 'sprt_elo0',
  'sprt.elo1': 'sprt_elo1',
  'sprt.elo_model': 'elo_model',
  'spsa.A': 'spsa_A',
  'spsa.alpha': 'spsa_alpha',
  'spsa.gamma': 'spsa_gamma',
  'spsa.raw_params': 'spsa_raw_params',
};
/** The same where GitHub is asked for commits and nets, which then have no field. */
const foundNames: Readonly<Record<string, string>> = {
  resolved_new: 'test-branch',
  resolved_base: 'base-branch',
  new_nets: 'test-branch',
  base_nets: 'base-branch',
};
const throughputs = ['10', '25', '50', '100', '200'];
const models = ['normalized', 'logistic', 'BayesElo'];

/** `/tests/run`: submits a run, or repeats one. */
export function submitPages(app: FastifyInstance, context: PageContext): void {
  addPage(app, context, '/tests/run', {
    for: 'user',
    get: async (visit) => {
      const { id, preset } = visit.query;
      const from = id === undefined ? undefined : await runOf(context, id, visit.signal);
      const values = from === undefined ? startValues(context, visit, preset) : valuesOf(from);
      return submitPage(context, visit, { values, errors: {}, from });
    },
    post: async (visit) => {
      const { form, person } = visit;
      const username = person?.username ?? '';
      const input = { username, run: submissionOf(form) };
      const { value, faults } = await attempt(context, visit, 'run-add', input);
      if (faults === undefined) {
        const { id } = value as ShownRun;
        return goTo(visit, `${runUrl(id)}?follow=1`, `${form['test-branch']} was submitted.`);
      }
      const found = context.files.github === undefined ? {} : foundNames;
      const names: Record<string, string> = { ...fieldNames, ...otherNames, ...found };
      const named = Object.entries(faults).map(([name, text]) => [names[name] ?? name, text]);
      return submitPage(context, visit, { values: form, errors: Object.fromEntries(named) });
    },
  });
}

interface SubmitForm {
  readonly values: QueryTexts;
  readonly errors: FieldErrors;
  readonly from?: Run | undefined;
}

function submitPage(context: PageContext, visit: Visit, form: SubmitForm): Shown {
  const { values, errors, from } = form;
  const title = from === undefined ? 'New run' : `Repeat ${from.args.new_tag}`;
  const links = [...presets.keys()].map((name) => ({
    name: name.replace('-', ' '),
    href: `/tests/run?preset=${name}`,
    current: name === (visit.query.preset ?? (visit.request.method === 'GET' ? 'STC' : '')),
  }));
  const { '': whole, ...byField } = errors;
  const refusal =
    whole !== undefined && notice({ verdict: 'Not submitted.', text: whole, tone: 'bad' });
  const hasBooks = context.files.books.books.size > 0;
  const noBooks =
    !hasBooks &&
    notice({
      verdict: 'There is no book yet.',
      text: html`Runs begin with openings from a book. Add one:
<code>npx fleet book add &lt;file&gt;</code>.`,
      tone: 'warn',
    });
  const kept = ['msg_new', 'msg_base', 'rescheduled_from'];
  if (context.files.github !== undefined) kept.push('resolved_new', 'resolved_base');
  const known = kept.filter((name) => values[name] !== undefined);
  const hidden = hiddenFields(Object.fromEntries(known.map((name) => [name, values[name] ?? ''])));
  const main = html`${pageHead({
    title,
    ...(from === undefined && { actions: tabs('Presets', links) }),
  })}
${refusal}${noBooks}${wrongFields(byField)}
<form class="stack" method="post" action="/tests/run">${tokenField(visit.reply)}${hidden}
<div class="halves">${branchCard(context, form)}${ruleCard(form)}</div>
${playCard(context, form)}
<div class="row">${button({ label: 'Submit the run', look: 'main' })}
<span class="quiet small">It is played once an approver other than you has looked at it.</span>
</div></form>`;
  const isWrong = Object.keys(errors).length > 0;
  return { title, place: '/tests/run', main, status: isWrong ? 422 : 200 };
}

type Extra = Partial<Parameters<typeof field>[0]>;

/** Makes the fields of one form: value and error of each are looked up by its name. */
function fieldsOf({ values, errors }: SubmitForm) {
  const common = (name: string, label: string) => ({
    name,
    label,
    value: values[name] ?? '',
    error: errors[name],
  });
  return {
    text: (name: string, label: string, more: Extra = {}) =>
      field({ ...common(name, label), ...more }),
    number: (name: string, label: string, more: Extra = {}) =>
      field({ ...common(name, label), numeric: true, ...more }),
    list: (name: string, label: string, choices: readonly (readonly [string, string])[]) =>
      choice({ ...common(name, label), choices }),
    tick: (name: string, label: string) =>
      tick({ name, label, checked: values[name] !== undefined }),
  };
}

function branchCard({ files }: PageContext, form: SubmitForm): Html {
  const { text } = fieldsOf(form);
  const isKnown = files.github !== undefined;
  const bench = isKnown ? 'As the commit says, if left empty.' : 'As the engine prints it.';
  // Without GitHub nobody can look the commits up, so they are typed.
  const byHand = !isKnown && [
    text('resolved_new', 'Commit of the branch', { hint: '40 hexadecimal digits.' }),
    text('resolved_base', 'Commit of the base', { hint: '40 hexadecimal digits.' }),
    text('new-nets', 'Nets of the branch', { hint: 'With commas between them; may be empty.' }),
    text('base-nets', 'Nets of the base'),
  ];
  const wide = (part: Html) => html`<div class="wide">${part}</div>`;
  const body = html`<div class="form">
${wide(text('tests-repo', 'Repository', { type: 'url' }))}
${text('test-branch', 'Branch to test', { required: true })}
${text('base-branch', 'Branch it plays against', { required: true })}
${text('test-signature', 'Bench of the branch', { hint: bench })}
${text('base-signature', 'Bench of the base', { hint: bench })}
${byHand}
${text('new-options', 'Options of the branch')}
${text('base-options', 'Options of the base')}
${wide(text('run-info', 'Text for people', { rows: 3, hint: 'What is it, and why?' }))}</div>`;
  return card({ id: 'branches', title: 'What is tested', body });
}

function ruleCard(form: SubmitForm): Html {
  const { text, number, list } = fieldsOf(form);
  const words: Readonly<Record<string, string>> = {
    '0,2': 'Standard, short: 0 to 2',
    '0.5,2.5': 'Standard, long: 0.5 to 2.5',
    '-1.75,0.25': 'No regression: −1.75 to 0.25',
    custom: 'As below',
  };
  const rules = [
    ['sprt', 'Until it is clear (SPRT)'],
    ['games', 'A number of games'],
    ['spsa', 'Tune parameters (SPSA)'],
  ] as const;
  const body = html`<div class="form">
${list('stop_rule', 'It ends', rules)}
${number('num-games', 'Games', { hint: 'A multiple of 1,000; not for SPRT.' })}
${list(
  'bounds',
  'Bounds of the SPRT',
  bounds.map((each) => [each, words[each] ?? each] as const),
)}
${list(
  'elo_model',
  'Model of Elo',
  models.map((each) => [each, each] as const),
)}
${number('sprt_elo0', 'Lower bound')}${number('sprt_elo1', 'Upper bound')}
<details class="wide" open="${form.values.stop_rule === 'spsa'}"><summary>Parameters of a tuning
</summary><div class="form">
${number('spsa_A', 'A, as a share')}${number('spsa_alpha', 'Alpha')}${number('spsa_gamma', 'Gamma')}
<div class="wide">${text('spsa_raw_params', 'Parameters', {
    rows: 5,
    hint: 'A line each: name,start,min,max,c_end,r_end',
  })}</div></div></details></div>`;
  return card({ id: 'rule', title: 'When it ends', body });
}

function playCard({ files }: PageContext, form: SubmitForm): Html {
  const { text, number, list, tick: box } = fieldsOf(form);
  const books = [...files.books.books.keys()].sort();
  const book = form.values.book ?? '';
  const shown = book === '' || books.includes(book) ? books : [book, ...books];
  const share = form.values.throughput ?? '100';
  const shares = throughputs.includes(share) ? throughputs : [share, ...throughputs];
  const body = html`<div class="form">
${text('tc', 'Time', { hint: 'Seconds a game and a move, like 10+0.1.' })}
${number('threads', 'Threads')}
${list(
  'book',
  'Book',
  shown.map((name) => [name, name] as const),
)}
${number('book-depth', 'Moves of the book')}
${number('priority', 'Priority')}
${list(
  'throughput',
  'Throughput',
  shares.map((each) => [each, `${each} %`] as const),
)}
<div class="wide row">${box('auto-purge', 'Purge by itself at the end')}
${box('adjudication', 'Play every game to its end')}</div>
<details class="wide" open="${hasOdds(form)}"><summary>Time odds, machines and compilers</summary>
<div class="form">
<div class="stack">${box('odds', 'Time odds')}${text('new_tc', 'Time of the branch')}</div>
<div class="stack">${box('checkbox-arch-filter', 'Only some machines')}
${text('arch-filter', 'Architectures', { hint: 'A pattern like avx2|bmi2.' })}</div>
<div class="stack">${box('checkbox-compiler', 'Only one compiler')}${list('compiler', 'Compiler', [
    ['g++', 'g++'],
    ['clang++', 'clang++'],
  ])}</div></div></details></div>`;
  return card({ id: 'play', title: 'How it is played', body });
}

function hasOdds({ values, errors }: SubmitForm): boolean {
  const boxes = ['odds', 'checkbox-arch-filter', 'checkbox-compiler'];
  const fields = ['new_tc', 'arch-filter', 'compiler'];
  return boxes.some((name) => values[name] !== undefined) || fields.some((name) => name in errors);
}
