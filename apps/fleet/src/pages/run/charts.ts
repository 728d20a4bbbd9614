import { type Html, html } from 'spillway-http';
import { card, decimal, lineChart, signed, sparkline, table } from 'spillway-http/kit';
import { eloEstimate } from '../../statistics/elo.ts';
import { llr } from '../../statistics/llr.ts';
import type { Sprt } from '../../statistics/sprt.ts';
import { type Spsa, spsaChart } from '../../statistics/spsa.ts';
import type { Stats } from '../../world/records.ts';
import type { Run } from '../../world/run.ts';
import { addDifference, zeroStats } from '../../world/world.ts';

const pointsMax = 120;

interface Moment {
  readonly games: number;
  readonly stats: Stats;
}

/** Cumulative results after some of the tasks, in their order. */
function momentsOf({ tasks }: Run): Moment[] {
  const sum = zeroStats();
  const step = Math.max(1, Math.ceil(tasks.length / pointsMax));
  const moments: Moment[] = [];
  let games = 0;
  for (const [at, task] of tasks.entries()) {
    addDifference(sum, task.record.stats, zeroStats());
    games += task.games;
    if (task.games === 0 || ((at + 1) % step !== 0 && at < tasks.length - 1)) continue;
    moments.push({ games, stats: { ...sum, pentanomial: [...sum.pentanomial] } });
  }
  return moments;
}

const formatGames = (games: number) => `${decimal(games)} games`;

/** LLR and Elo over the games, or the parameters of a tuning over its iterations. */
export function chartCard(run: Run): Html | undefined {
  const { sprt, spsa } = run.args;
  if (spsa !== undefined) return tuningCard(spsa);
  const moments = momentsOf(run);
  if (moments.length < 2) return undefined;
  const elo = eloChart(moments);
  if (sprt === undefined) {
    return card({ id: 'chart', title: 'Elo', about: 'with its 95 % interval', body: elo });
  }
  const about = `is it ⟨${decimal(sprt.elo0, 2)}⟩ or ⟨${decimal(sprt.elo1, 2)}⟩ Elo?`;
  const body = html`${llrChart(sprt, moments)}
<h3 class="chart-name">Elo <span class="count">with its 95 % interval</span></h3>${elo}`;
  return card({ id: 'chart', title: 'Likelihood ratio', about, body });
}

function llrChart(sprt: Sprt, moments: readonly Moment[]): Html {
  const { elo0, elo1, elo_model: model = 'BayesElo', lower_bound: low, upper_bound: high } = sprt;
  const value = (stats: Stats) => llr(stats, { elo0, elo1, model });
  const points = moments.map(({ games, stats }) => [games, value(stats)] as const);
  const reach = Math.max(high, ...points.map(([, y]) => Math.abs(y))) * 1.16;
  const label =
    `Log-likelihood ratio over the games: now ${decimal(sprt.llr, 2)}; ${decimal(high, 2)} ` +
    `accepts, ${decimal(low, 2)} rejects. Arrow keys read the points.`;
  return lineChart({
    label,
    lines: [{ name: 'LLR', points: [[0, 0], ...points] }],
    range: [-reach, reach],
    bounds: [
      { y: high, label: `${decimal(high, 2)} accept`, kind: 'up' },
      { y: low, label: `${decimal(low, 2)} reject`, kind: 'down' },
    ],
    format: (y) => decimal(y, 2),
    formatGrid: (y) => decimal(y),
    formatX: formatGames,
    nameX: 'Games',
    size: 'tall',
  });
}

function eloChart(moments: readonly Moment[]): Html {
  const values = moments.map(({ games, stats }) => {
    const { elo, error95 } = eloEstimate(stats.pentanomial);
    return { games, elo, error: error95 };
  });
  const last = values.at(-1) as (typeof values)[number];
  const reach = 6 * last.error;
  const known = values.filter(({ error }) => error <= reach);
  const end = last.games;
  return lineChart({
    label: `Elo over the games: now ${signed(last.elo, 2)} ± ${decimal(last.error, 1)}.`,
    lines: [
      {
        name: 'Elo',
        points: known.map(({ games, elo }) => [games, elo] as const),
        band: known.map(({ games, elo, error }) => [games, elo - error, elo + error] as const),
      },
    ],
    domain: [0, end],
    format: (y) => signed(y, 2),
    formatX: formatGames,
    nameX: 'Games',
    ticks: [
      { x: 0, label: '0 games' },
      { x: end / 2, label: decimal(Math.round(end / 2)) },
      { x: end, label: `${decimal(end)} now` },
    ],
    size: 'low',
  });
}

const linesMax = 5;

function tuningCard(spsa: Spsa): Html {
  const { chart_rows: rows } = spsaChart(spsa);
  const moved = spsa.params
    .map((param, at) => ({ at, name: param.name, way: Math.abs(shift(param)) }))
    .toSorted((a, b) => b.way - a.way)
    .slice(0, linesMax);
  const lines = moved.map(({ at, name }) => ({
    name,
    points: rows.map(({ iter_ratio, values }) => {
      const param = spsa.params[at] as Spsa['params'][number];
      return [iter_ratio * 100, shift(param, values[at])] as const;
    }),
  }));
  const chart = lineChart({
    label: `Change of ${moved.map(({ name }) => name).join(', ')} in percent of their range`,
    lines,
    domain: [0, 100],
    format: (y) => `${signed(y, 1)} %`,
    formatX: (x) => `${decimal(x)} % of the iterations`,
    nameX: 'Iterations',
    ticks: [
      { x: 0, label: 'start' },
      { x: 50, label: 'half of the iterations' },
      { x: 100, label: 'end' },
    ],
    room: 0.16,
    size: 'tall',
  });
  const trend = (at: number) => {
    const values = rows.map(({ values: all }) => all[at] ?? 0);
    const min = Math.min(...values);
    const max = Math.max(...values, min + 1e-9);
    return sparkline({ values, min, max, label: `The way of ${spsa.params[at]?.name}` });
  };
  const values = table({
    label: 'Table of parameters',
    dense: true,
    rows: spsa.params.map((param, at) => ({ ...param, at })),
    key: ({ name }) => name,
    columns: [
      { name: 'Parameter', cell: ({ name }) => html`<span class="mono">${name}</span>` },
      { name: 'Value', numeric: true, cell: ({ theta }) => html`<b>${decimal(theta, 2)}</b>` },
      { name: 'Start', numeric: true, cell: ({ start }) => decimal(start, 2) },
      { name: 'Least', numeric: true, cell: ({ min }) => decimal(min, 2) },
      { name: 'Most', numeric: true, cell: ({ max }) => decimal(max, 2) },
      { name: 'c at the end', numeric: true, cell: ({ c_end }) => decimal(c_end, 2) },
      { name: 'r at the end', numeric: true, cell: ({ r_end }) => decimal(r_end, 4) },
      { name: 'Way', cell: ({ at }) => trend(at), fold: 'whole' },
    ],
  });
  const about = `${decimal(spsa.iter)} of ${decimal(spsa.num_iter)} iterations`;
  return card({
    id: 'chart',
    title: 'Parameters',
    about,
    body: html`<div class="stack">${chart}${values}</div>`,
  });
}

/** Distance of a parameter from its start, in percent of its range. */
function shift(param: Spsa['params'][number], value: number = param.theta): number {
  return ((value - param.start) / Math.max(param.max - param.min, 1e-9)) * 100;
}
