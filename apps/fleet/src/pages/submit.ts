import { type Html, html } from 'spillway-http';
import { button, card, hiddenFields, notice, tabs } from 'spillway-http/kit';
import { allRunFields, officialRepo } from '../operations/submission.ts';
import { presets } from '../operations/submission-source.ts';
import type { QueryTexts } from '../read/answers.ts';
import { eloModels } from '../statistics/llr.ts';
import type { Run } from '../world/run.ts';
import {
  choicesOf,
  complaints,
  errorsOf,
  type FormField,
  type FormState,
  fieldsOf,
  inputOf,
  inputs,
  type Looks,
  throughputs,
  valuesIn,
} from './form.ts';
import type { PageContext } from './pages.ts';
import type { Pages } from './routes.ts';
import { runUrl } from './run/cells.ts';
import { runOf, type Shown, type Visit } from './visit.ts';

const defaultBook = 'UHO_Lichess_4852_v1.epd';
const bounds: NonNullable<FormField['choices']> = [
  ['0,2', 'Standard, short: 0 to 2'],
  ['0.5,2.5', 'Standard, long: 0.5 to 2.5'],
  ['-1.75,0.25', 'No regression: −1.75 to 0.25'],
  ['custom', 'Custom: as entered below'],
];
const stopRules: NonNullable<FormField['choices']> = [
  ['sprt', 'Sequential test (SPRT)'],
  ['games', 'Fixed number of games'],
  ['spsa', 'Parameter tuning (SPSA)'],
];

/** The form's fields of a run, with their names in fishtest. */
const looks: Looks = {
  tests_repo: { name: 'tests-repo', type: 'url', wide: true },
  new_tag: { name: 'test-branch', required: true },
  base_tag: { name: 'base-branch', required: true },
  new_signature: { name: 'test-signature' },
  base_signature: { name: 'base-signature' },
  resolved_new: { hint: '40 hexadecimal digits.' },
  resolved_base: { hint: '40 hexadecimal digits.' },
  new_nets: { name: 'new-nets' },
  base_nets: { name: 'base-nets' },
  new_options: { name: 'new-options' },
  base_options: { name: 'base-options' },
  info: { name: 'run-info', rows: 3, hint: 'What does the change do, and why?' },
  num_games: { name: 'num-games' },
  'sprt.elo_model': { name: 'elo_model', choices: choicesOf('', eloModels) },
  'sprt.elo0': { name: 'sprt_elo0' },
  'sprt.elo1': { name: 'sprt_elo1' },
  'spsa.algorithm': { name: 'spsa_algorithm' },
  'spsa.A': { name: 'spsa_A' },
  'spsa.alpha': { name: 'spsa_alpha' },
  'spsa.gamma': { name: 'spsa_gamma' },
  'spsa.raw_params': { name: 'spsa_raw_params', rows: 5 },
  tc: {},
  threads: {},
  book: {},
  book_depth: { name: 'book-depth' },
  priority: {},
  throughput: {},
  auto_purge: { name: 'auto-purge' },
  adjudication: {},
  new_tc: {},
  arch_filter: { name: 'arch-filter' },
  compiler: { choices: choicesOf('', ['g++', 'clang++']) },
  msg_new: {},
  msg_base: {},
  rescheduled_from: {},
};
/** With GitHub, the server looks these fields up by another one, which then shows their faults. */
const found: Readonly<Record<string, string>> = {
  resolved_new: 'new_tag',
  resolved_base: 'base_tag',
  new_nets: 'new_tag',
  base_nets: 'base_tag',
};

/** `/tests/run`: submits a run, or repeats one. */
export const submitPages: Pages = {
  '/tests/run': {
    for: 'user',
    get: async (visit) => {
      const { id, preset } = visit.query;
      const from = id === undefined ? undefined : await runOf(visit, id);
      const start = startValues(visit, preset);
      const values = from === undefined ? start : { ...start, ...valuesOf(from) };
      return submitPage(visit, { values }, from);
    },
    post: async (visit) => {
      const { form, person, context } = visit;
      const username = person?.username ?? '';
      const input = { username, run: submissionOf(form) };
      const { value, faults } = await visit.attempt('run-add', input);
      if (faults === undefined) {
        const { id } = value as { readonly id: string };
        return visit.goTo(`${runUrl(id)}?follow=1`, `${form['test-branch']} was submitted.`);
      }
      const isFound = context.files.github !== undefined;
      const shown = Object.entries(faults).map(([name, text]) => {
        return [(isFound && found[name]) || name, text];
      });
      return submitPage(visit, {
        values: form,
        errors: errorsOf(looks, Object.fromEntries(shown)),
      });
    },
  },
};

/** Turns a submitted form into the input of the operation `run-add`, without empty fields. */
function submissionOf(form: QueryTexts): object {
  const rule = stopRules.find(([name]) => name === form.stop_rule)?.[0] ?? 'sprt';
  const [elo0, elo1] = (form.bounds ?? '').split(',');
  const isTicked = (name: string) => form[name] !== undefined;
  const sent: QueryTexts = {
    ...form,
    ...(elo1 !== undefined && { sprt_elo0: elo0, sprt_elo1: elo1 }),
    ...(rule === 'spsa' && { 'base-signature': form['test-signature'] }),
    ...(rule === 'sprt' && { 'num-games': '' }),
    ...(!isTicked('odds') && { new_tc: '' }),
    ...(!isTicked('checkbox-arch-filter') && { 'arch-filter': '' }),
    ...(!isTicked('checkbox-compiler') && { compiler: '' }),
  };
  const run: Record<string, unknown> = rule === 'games' ? {} : { [rule]: {} };
  for (const [path, value] of Object.entries(inputOf(allRunFields, looks, sent))) {
    const plain = typeof value === 'string' ? value.replaceAll('\r', '').trim() : value;
    const [name = '', inner] = path.split('.');
    if (plain === '') continue;
    if (inner === undefined) run[name] = plain;
    else if (name === rule) Object.assign(run[rule] as object, { [inner]: plain });
  }
  return { ...run, adjudication: !isTicked('adjudication') };
}

/** Initial values of the form for a new run, with those of a preset. */
function startValues({ context, person }: Visit, name = 'STC'): QueryTexts {
  const preset = presets.get(name) ?? presets.get('STC');
  const books = [...context.files.books.books.keys()];
  const run = {
    tests_repo: person?.tests_repo || officialRepo,
    base_tag: 'master',
    book: books.includes(defaultBook) ? defaultBook : (books[0] ?? ''),
    book_depth: '8',
    priority: 0,
    num_games: 60_000,
    spsa: { A: 0.1, alpha: 0.602, gamma: 0.101 },
    ...preset,
    sprt: { elo_model: 'normalized', elo0: 0, elo1: 2 },
  };
  const { sprt } = preset ?? {};
  return {
    ...valuesIn(looks, run),
    stop_rule: sprt === undefined ? 'games' : 'sprt',
    bounds: sprt === undefined ? '0,2' : `${sprt.elo0},${sprt.elo1}`,
  };
}

/** Initial values of the form for a run that repeats another one. */
function valuesOf({ args, id }: Run): QueryTexts {
  const { sprt, spsa } = args;
  const both = `${sprt?.elo0},${sprt?.elo1}`;
  const raw = spsa?.params.map(({ name, start, min, max, c_end, r_end }) =>
    [name, start, min, max, c_end, r_end].join(','),
  );
  const on = (isTicked: boolean) => (isTicked ? 'on' : undefined);
  return {
    ...valuesIn(looks, args),
    rescheduled_from: id,
    odds: on(args.new_tc !== args.tc),
    'checkbox-arch-filter': on(args.arch_filter !== undefined),
    'checkbox-compiler': on(args.compiler !== undefined),
    adjudication: on(!args.adjudication),
    stop_rule: spsa === undefined ? (sprt === undefined ? 'games' : 'sprt') : 'spsa',
    ...(sprt && { bounds: bounds.some(([each]) => each === both) ? both : 'custom' }),
    // The stored A is a number of iterations, the field a share of them.
    spsa_A: '0.1',
    spsa_raw_params: raw?.join('\n') ?? '',
  };
}

function submitPage(visit: Visit, form: FormState, from?: Run): Shown {
  const { values, errors = {} } = form;
  const { files } = visit.context;
  const title = from === undefined ? 'New run' : `Repeat ${from.args.new_tag}`;
  const links = [...presets.keys()].map((name) => ({
    name: name.replace('-', ' '),
    href: `/tests/run?preset=${name}`,
    current: name === (visit.query.preset ?? (visit.request.method === 'GET' ? 'STC' : '')),
  }));
  const noBooks =
    files.books.books.size === 0 &&
    notice({
      verdict: 'There is no book yet.',
      text: html`Runs begin with openings from a book. Add one:
<code>npx fleet book add &lt;file&gt;</code>.`,
      tone: 'warn',
    });
  const kept = ['msg_new', 'msg_base', 'rescheduled_from'];
  if (files.github !== undefined) kept.push('resolved_new', 'resolved_base');
  const known = kept.filter((name) => values[name] !== undefined);
  const hidden = hiddenFields(Object.fromEntries(known.map((name) => [name, values[name] ?? ''])));
  const main = html`${noBooks}${complaints(fieldsOf(allRunFields, looks), form)}
<form class="stack" method="post" action="/tests/run">${visit.token}${hidden}
${formCards(visit.context, form)}
<div class="row">${button({ label: 'Submit the run', look: 'main' })}
<span class="quiet small">Workers play it when an approver other than you has approved it.</span>
</div></form>`;
  const head = from === undefined ? { actions: tabs('Presets', links) } : {};
  const isWrong = Object.keys(errors).length > 0;
  return { title, place: '/tests/run', head, main, status: isWrong ? 422 : 200 };
}

function formCards({ files }: PageContext, form: FormState): Html {
  const { values, errors = {} } = form;
  const fields: Looks = {
    ...looks,
    book: { choices: choicesOf(values.book ?? '', [...files.books.books.keys()].sort()) },
    throughput: { choices: choicesOf(values.throughput ?? '100', throughputs, ' %') },
    ...(files.github === undefined && {
      new_signature: { name: 'test-signature', hint: 'As the engine prints it.' },
      base_signature: { name: 'base-signature', hint: 'As the engine prints it.' },
    }),
  };
  const some = (...names: string[]) => {
    const chosen = Object.fromEntries(names.map((name) => [name, fields[name] ?? {}]));
    return inputs(fieldsOf(allRunFields, chosen), form);
  };
  const own = (...list: FormField[]) => inputs(list, form);
  const box = (name: string, label: string) => own({ name, label, isTick: true });
  // Without GitHub the server cannot look commits up, so the user enters them.
  const byHand =
    files.github === undefined ? ['resolved_new', 'resolved_base', 'new_nets', 'base_nets'] : [];
  const branches = html`<div class="form">
${some('tests_repo', 'new_tag', 'base_tag', 'new_signature', 'base_signature', ...byHand)}
${some('new_options', 'base_options', 'info')}</div>`;
  const end = html`<div class="form">
${own({ name: 'stop_rule', label: 'Stop rule', choices: stopRules })}${some('num_games')}
${own({ name: 'bounds', label: 'Bounds of the SPRT', choices: bounds })}
${some('sprt.elo_model', 'sprt.elo0', 'sprt.elo1')}
<details class="wide" open="${values.stop_rule === 'spsa'}"><summary>Parameters of a tuning
</summary><div class="form">${some('spsa.A', 'spsa.alpha', 'spsa.gamma', 'spsa.raw_params')}
</div></details></div>`;
  const boxes = ['odds', 'checkbox-arch-filter', 'checkbox-compiler'];
  const isOpen =
    boxes.some((name) => values[name] !== undefined) ||
    'new_tc' in errors ||
    'arch-filter' in errors;
  const play = html`<div class="form">
${some('tc', 'threads', 'book', 'book_depth', 'priority', 'throughput')}
<div class="wide row">${some('auto_purge', 'adjudication')}</div>
<details class="wide" open="${isOpen}"><summary>Time odds, machines and compilers</summary>
<div class="form">
<div class="stack">${box('odds', 'Time odds')}${some('new_tc')}</div>
<div class="stack">${box('checkbox-arch-filter', 'Only some machines')}${some('arch_filter')}</div>
<div class="stack">${box('checkbox-compiler', 'Only one compiler')}${some('compiler')}</div>
</div></details></div>`;
  return html`<div class="halves">
${card({ id: 'branches', title: 'What is tested', body: branches })}
${card({ id: 'rule', title: 'When it ends', body: end })}</div>
${card({ id: 'play', title: 'How it is played', body: play })}`;
}
