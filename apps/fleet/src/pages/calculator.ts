import { type Html, html } from 'spillway-http';
import {
  button,
  card,
  decimal,
  duration,
  facts,
  lineChart,
  meter,
  percent,
  signed,
  table,
} from 'spillway-http/kit';
import { type FieldFault, number, readFields, text } from '../operations/fields.ts';
import type { QueryTexts } from '../read/answers.ts';
import { type SprtCalculatorOptions, sprtForecast } from '../statistics/sprt.ts';
import { choicesOf, complaints, fieldsOf, inputs, type Looks } from './form.ts';
import type { PageContext } from './pages.ts';
import type { Pages } from './routes.ts';
import { complaintsOf, type Shown } from './visit.ts';

/** `/sprt_calc` and `/rate_limits`. */
export const calculatorPages: Pages = {
  '/sprt_calc': {
    get: ({ query, context }) => ({ ...calculatorPage(query), scripts: [context.calculator] }),
  },
  '/rate_limits': {
    get: ({ context }) => {
      return { title: 'Rate limits', place: '/rate_limits', main: limitsCard(context) };
    },
  },
  '/rate_limits/server': { get: ({ context, reply }) => reply.send(limitsCard(context)) },
};

const eloMax = 10;
const gapMin = 0.5;
const points = 41;
const models = ['Normalized', 'Logistic'];

const bound = (about: string, absent: number) =>
  number({
    about,
    rule: `a number from −${eloMax} to ${eloMax}`,
    holds: (value) => Math.abs(value) <= eloMax,
    absent,
  });
const fields = {
  'elo-model': text({
    about: 'Elo model',
    rule: `one of ${models.join(', ')}`,
    holds: (value) => models.includes(value),
    absent: 'Normalized',
  }),
  'elo-0': bound('lower bound, Elo', 0),
  'elo-1': bound('upper bound, Elo', 2),
  'draw-ratio': number({
    about: 'share of draws',
    rule: 'a share from 0 to below 1',
    holds: (value) => value >= 0 && value < 1,
    absent: 0.49,
  }),
  'rms-bias': number({
    about: 'bias of openings, Elo',
    rule: 'a number from 0',
    holds: (value) => value >= 0,
    absent: 191,
  }),
};
const names = Object.keys(fields) as (keyof typeof fields)[];
const looks: Looks = {
  ...Object.fromEntries(names.map((name) => [name, {}])),
  'elo-model': { choices: choicesOf('', models) },
};

function calculatorPage(query: QueryTexts): Shown {
  const faults: FieldFault[] = [];
  const sent = Object.fromEntries(names.map((name) => [name, query[name]]));
  const input = readFields(fields, sent, faults);
  const options: SprtCalculatorOptions = {
    model: input['elo-model'] === 'Logistic' ? 'logistic' : 'normalized',
    elo0: input['elo-0'],
    elo1: input['elo-1'],
    drawRatio: input['draw-ratio'],
    rmsBias: input['rms-bias'],
  };
  const areBounds = !faults.some(({ field }) => field.startsWith('elo'));
  if (areBounds && options.elo1 < options.elo0 + gapMin) {
    faults.push({ field: 'elo-1', message: `must be at least ${options.elo0 + gapMin}` });
  }
  if (faults.length === 0 && Number.isNaN(sprtForecast(options, 0).games)) {
    const message = 'so uneven openings leave room for no more than draws: use less';
    faults.push({ field: 'rms-bias', message });
  }
  const values = Object.fromEntries(
    names.map((name) => [name, query[name] ?? String(input[name])]),
  );
  const state = { values, errors: complaintsOf(faults) };
  const shown = fieldsOf(fields, looks);
  const form = html`<form class="form" action="/sprt_calc" data-answer="forecast">
${inputs(shown, state)}<div class="row wide">${button({ label: 'Calculate', look: 'main' })}
<a href="/sprt_calc">Start again</a></div></form>`;
  const main = html`<div class="stack">${card({ id: 'test', title: 'The test', body: form })}
<div class="stack" id="forecast">${complaints(shown, state)}
${faults.length === 0 && forecasts(options)}</div></div>`;
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
  ['Asked', isAsked ? 'yes' : 'no: this server does not ask GitHub'],
  ['Left', `${decimal(remaining)} of ${decimal(limit)} requests`],
  ['Used', decimal(used)],
  ['Full again', `in ${duration(Math.max(0, reset * 1000 - clock.now()))}`],
])}</div>`;
  return card({ id: 'github', title: 'GitHub, asked by this server', body });
}
