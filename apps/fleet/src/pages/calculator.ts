import type { FastifyInstance } from 'fastify';
import { type Html, html } from 'spillway-http';
import {
  button,
  card,
  choice,
  decimal,
  duration,
  facts,
  field,
  lineChart,
  meter,
  pageHead,
  percent,
  signed,
  table,
  wrongFields,
} from 'spillway-http/kit';
import type { QueryTexts } from '../read/answers.ts';
import { type SprtCalculatorOptions, sprtForecast } from '../statistics/sprt.ts';
import type { PageContext } from './pages.ts';
import { addPage, type Shown } from './visit.ts';

/** `/sprt_calc` and `/rate_limits`. */
export function calculatorPages(app: FastifyInstance, context: PageContext): void {
  addPage(app, context, '/sprt_calc', { get: async ({ query }) => calculatorPage(query) });
  const limits = () => limitsCard(context);
  addPage(app, context, '/rate_limits', {
    get: async () => ({
      title: 'Rate limits',
      place: '/rate_limits',
      main: html`${pageHead({ title: 'Rate limits' })}${limits()}`,
    }),
  });
  app.get(
    '/rate_limits/server',
    { config: { lane: context.lanes.pages } },
    async (_request, reply) => reply.send(limits()),
  );
}

const defaults = {
  'elo-model': 'Normalized',
  'elo-0': '0.0',
  'elo-1': '2.0',
  'draw-ratio': '0.49',
  'rms-bias': '191',
} as const;
const eloMax = 10;
const gapMin = 0.5;
const points = 41;

interface CalculatorInput {
  readonly values: Readonly<Record<keyof typeof defaults, string>>;
  readonly errors: Readonly<Record<string, string>>;
  readonly options: SprtCalculatorOptions;
}

function inputOf(query: QueryTexts): CalculatorInput {
  const values = Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [name, query[name] ?? value]),
  ) as CalculatorInput['values'];
  const number = (name: keyof typeof defaults) =>
    values[name].trim() === '' ? Number.NaN : Number(values[name]);
  const options: SprtCalculatorOptions = {
    model: values['elo-model'] === 'Logistic' ? 'logistic' : 'normalized',
    elo0: number('elo-0'),
    elo1: number('elo-1'),
    drawRatio: number('draw-ratio'),
    rmsBias: number('rms-bias'),
  };
  const errors: Record<string, string> = {};
  const { elo0, elo1, drawRatio, rmsBias } = options;
  if (!(Math.abs(elo0) <= eloMax)) errors['elo-0'] = `Use a number from −${eloMax} to ${eloMax}.`;
  if (!(Math.abs(elo1) <= eloMax)) errors['elo-1'] = `Use a number from −${eloMax} to ${eloMax}.`;
  else if (elo1 < elo0 + gapMin) errors['elo-1'] = `Use at least ${elo0 + gapMin}.`;
  if (!(drawRatio >= 0 && drawRatio < 1)) errors['draw-ratio'] = 'Use a share from 0 to below 1.';
  if (!(rmsBias >= 0)) errors['rms-bias'] = 'Use a number from 0.';
  else if (Object.keys(errors).length === 0 && Number.isNaN(sprtForecast(options, 0).games)) {
    errors['rms-bias'] = 'So uneven openings leave room for no more than draws. Use less.';
  }
  return { values, errors, options };
}

function calculatorPage(query: QueryTexts): Shown {
  const { values, errors, options } = inputOf(query);
  const number = (name: keyof typeof defaults, label: string) =>
    field({ name, label, value: values[name], error: errors[name], numeric: true });
  const models = ['Normalized', 'Logistic'].map((name) => [name, name] as const);
  const form = html`<form class="form" action="/sprt_calc">
${choice({ name: 'elo-model', label: 'Model of Elo', value: values['elo-model'], choices: models })}
${number('elo-0', 'Lower bound, Elo')}${number('elo-1', 'Upper bound, Elo')}
${number('draw-ratio', 'Share of draws')}${number('rms-bias', 'Bias of openings, Elo')}
<div class="row wide">${button({ label: 'Calculate', look: 'main' })}
<a href="/sprt_calc">Start again</a></div></form>`;
  const isWrong = Object.keys(errors).length > 0;
  const main = html`${pageHead({ title: 'SPRT calculator' })}${wrongFields(errors)}
<div class="stack">${card({ id: 'test', title: 'The test', body: form })}
${!isWrong && forecasts(options)}</div>`;
  return { title: 'SPRT calculator', place: '/sprt_calc', main };
}

function forecasts(options: SprtCalculatorOptions): Html {
  const { elo0, elo1 } = options;
  const width = elo1 - elo0;
  const rows = Array.from({ length: points }, (_, at) => {
    const elo = elo0 - width + (3 * width * at) / (points - 1);
    return { elo, ...sprtForecast(options, elo) };
  });
  const ticks = [elo0 - width, elo0, elo1, elo1 + width].map((x) => ({ x, label: signed(x, 2) }));
  const common = {
    domain: [elo0 - width, elo1 + width] as const,
    formatX: (x: number) => `${signed(x, 2)} Elo`,
    nameX: 'Elo',
    ticks,
    room: 0.14,
    table: false,
  };
  const pass = lineChart({
    ...common,
    label: 'The chance to pass by the strength of the change',
    lines: [{ name: 'Passes', points: rows.map(({ elo, passChance }) => [elo, passChance * 100]) }],
    range: [0, 100],
    format: (y) => `${decimal(y)} %`,
  });
  const games = lineChart({
    ...common,
    label: 'The games that the test takes on average by the strength of the change',
    lines: [{ name: 'Games', points: rows.map(({ elo, games: count }) => [elo, count]) }],
    format: (y) => decimal(y),
  });
  const chosen = rows.filter((_, at) => at % 4 === 0);
  const list = table({
    label: 'Forecasts',
    dense: true,
    rows: chosen,
    columns: [
      { name: 'Elo', numeric: true, cell: ({ elo }) => signed(elo, 2) },
      {
        name: 'Chance to pass',
        numeric: true,
        cell: ({ passChance }) => percent(passChance, 1),
      },
      { name: 'Games', numeric: true, cell: ({ games: count }) => decimal(count) },
    ],
  });
  return html`<div class="halves">${card({ id: 'pass', title: 'Chance to pass', body: pass })}
${card({ id: 'games', title: 'Games it takes', body: games })}</div>
${card({ id: 'table', title: 'As a table', flush: true, body: list })}`;
}

function limitsCard({ files, clock }: PageContext): Html {
  const { limit, remaining, used, reset } = files.budget;
  const isAsked = files.github !== undefined;
  const body = html`<div class="stack">${meter({ share: remaining / Math.max(1, limit) })}
${facts([
  ['WorkerCall', isAsked ? 'yes' : 'no: this server does not ask GitHub'],
  ['Left', `${decimal(remaining)} of ${decimal(limit)} requests`],
  ['Used', decimal(used)],
  ['Full again', `in ${duration(Math.max(0, reset * 1000 - clock.now()))}`],
])}</div>`;
  return card({ id: 'github', title: 'GitHub, asked by this server', body });
}
