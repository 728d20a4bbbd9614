import { type Html, type HtmlValue, html } from 'spillway-http';
import {
  button,
  type Column,
  decimal,
  duration,
  meter,
  percent,
  type StateName,
  signed,
  spanBar,
  state,
  tag,
  unknown,
} from 'spillway-http/kit';
import { eloEstimate } from '../../statistics/elo.ts';
import { fixedGamesState } from '../../statistics/run-statistics.ts';
import { ltcFrom, remainingHours } from '../../statistics/time-control.ts';
import type { RunArgs, RunRecord, Stats } from '../../world/records.ts';
import { type RunStatus, statusOf } from '../../world/run.ts';
import { gamesOf } from '../../world/world.ts';
import { pairBars } from './pair-bars.ts';

const openStates: Readonly<Record<Exclude<RunStatus, 'finished'>, [StateName, word: string]>> = {
  active: ['active', 'Active'],
  waiting: ['paused', 'Waiting'],
  pending: ['pending', 'Pending'],
  failed: ['failed', 'Failed'],
};

/** The state of a run in a word, after the shape that goes with it. */
export function stateOf(record: RunRecord): [StateName, word: string] {
  const { is_green, is_yellow, args, results } = record;
  const status = statusOf(record);
  if (status !== 'finished') return openStates[status];
  if (is_green) return ['accepted', 'Accepted'];
  if (is_yellow) return ['ahead', 'Rejected, ahead'];
  if (args.spsa !== undefined) return ['done', 'Tuned'];
  const decision = args.sprt === undefined ? fixedGamesState(results) : args.sprt.state;
  return decision === 'rejected' ? ['rejected', 'Rejected'] : ['idle', 'Undecided'];
}

export function statePill(record: RunRecord): Html {
  return state(...stateOf(record));
}

const veryLongSeconds = 150;

/** The usual name of a time control: STC, LTC, VLTC, with SMP for several threads. */
export function kindOf({ tc_base, args }: Pick<RunRecord, 'tc_base' | 'args'>): string {
  const length = tc_base >= veryLongSeconds ? 'VLTC' : tc_base >= ltcFrom ? 'LTC' : 'STC';
  return args.threads > 1 ? `${length} SMP` : length;
}

/** The rule by which a run ends: `SPRT ⟨0.00, 2.00⟩`, `60,000 games`, `SPSA, 12 parameters`. */
export function ruleText({ sprt, spsa, num_games }: RunArgs): string {
  if (sprt !== undefined) return `SPRT ⟨${decimal(sprt.elo0, 2)}, ${decimal(sprt.elo1, 2)}⟩`;
  if (spsa === undefined) return `${decimal(num_games)} games`;
  const { length } = spsa.params;
  return `SPSA, ${length} ${length === 1 ? 'parameter' : 'parameters'}`;
}

/** Elo with its error at 95 %; undefined before the first pair. */
export function eloText({ pentanomial: pairs }: Stats): string {
  if (pairs.every((count) => count === 0)) return unknown;
  const { elo, error95 } = eloEstimate(pairs);
  return Number.isFinite(error95) ? `${signed(elo, 2)} ± ${decimal(error95, 1)}` : signed(elo, 2);
}

/** Pairs won for each pair lost. */
export function pairRatio({ pentanomial: pairs }: Stats): number | undefined {
  const [ll = 0, ld = 0, , wd = 0, ww = 0] = pairs;
  return ll + ld === 0 ? undefined : (wd + ww) / (ll + ld);
}

export function runUrl(id: string): string {
  return `/tests/view/${id}`;
}

/** Milliseconds until the run is over with the cores it has; undefined without any. */
export function msLeft({ args, results, cores }: RunRecord): number | undefined {
  return cores === 0 ? undefined : (remainingHours(args, gamesOf(results)) / cores) * 3_600_000;
}

function nameCell({ _id, args }: RunRecord): Html {
  const about = args.info === '' ? args.username : `${args.username} · ${firstLine(args.info)}`;
  return html`<span class="run"><a href="${runUrl(_id)}">${args.new_tag}</a>
<span class="second cut">${about}</span></span>`;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function testCell(record: RunRecord): Html {
  const { args } = record;
  const threads = args.threads > 1 && ` × ${args.threads}`;
  return html`<span class="nowrap">${tag(kindOf(record))}
<span class="mono small">${args.tc}${threads}</span></span>
<span class="second nowrap">${ruleText(args)}</span>`;
}

/** The progress of a run: its LLR between the bounds, or the share of its games. */
export function progressCell({ args, results }: RunRecord): Html {
  const { sprt, spsa, num_games } = args;
  if (sprt !== undefined) {
    const { llr, lower_bound: from, upper_bound: to } = sprt;
    const label = `LLR ${decimal(llr, 2)} between ${decimal(from, 2)} and ${decimal(to, 2)}`;
    return html`<span class="llr-cell">${spanBar({ value: llr, from, to, label })}
<b>${decimal(llr, 2)}</b></span>`;
  }
  const share =
    spsa === undefined ? gamesOf(results) / num_games : spsa.iter / Math.max(1, spsa.num_iter);
  return html`<span class="llr-cell">${meter({ share })}<b>${percent(share)}</b></span>`;
}

function pairCell({ args, results }: RunRecord): HtmlValue {
  const { spsa } = args;
  if (spsa !== undefined) {
    const done = `${decimal(spsa.iter)} of ${decimal(spsa.num_iter)}`;
    return html`<span class="second">${done} iterations</span>`;
  }
  const ratio = pairRatio(results);
  return html`<span class="pair-cell">${pairBars(results)}
<small class="quiet">${decimal(ratio, 2)}</small></span>`;
}

type RunColumn = Column<RunRecord>;

const run: RunColumn = { name: 'Run', cell: nameCell, heads: true };
const test: RunColumn = { name: 'Test', cell: testCell, fold: 'whole' };
const pairs: RunColumn = { name: 'Pairs', cell: pairCell };
const elo: RunColumn = {
  name: 'Elo',
  numeric: true,
  cell: ({ results, args }) => (args.spsa === undefined ? eloText(results) : unknown),
};
const games: RunColumn = {
  name: 'Games',
  numeric: true,
  cell: ({ results }) => decimal(gamesOf(results)),
};

export const waitingColumns = (now: number): RunColumn[] => [
  { name: 'State', cell: statePill, heads: false, fold: 'corner' },
  run,
  test,
  { name: 'Why it waits', cell: (record) => waitingText(record, now), fold: 'whole' },
  {
    name: 'Look',
    fold: 'whole',
    numeric: true,
    cell: ({ _id, approved }) =>
      button({ label: approved ? 'View' : 'Review', href: runUrl(_id), little: true }),
  },
];

function waitingText({ approved, args, start_time, failures }: RunRecord, now: number): string {
  if (failures > 0) return `${failures} ${failures === 1 ? 'machine' : 'machines'} reported it`;
  const age = duration(Math.max(0, now - start_time));
  if (approved) return `Priority ${decimal(args.priority)}: waits for a free machine`;
  const reasons: string[] = [];
  if (args.throughput > 100) reasons.push(`throughput ${args.throughput} %`);
  if (args.priority > 0) reasons.push(`priority ${args.priority}`);
  const more = reasons.length > 0 ? ` (${reasons.join(', ')})` : '';
  return `Submitted ${age} ago; needs an approver${more}`;
}

export const activeColumns = (now: number): RunColumn[] => [
  run,
  test,
  { name: 'LLR or progress', cell: progressCell, fold: 'whole' },
  elo,
  pairs,
  games,
  { name: 'Cores', numeric: true, cell: ({ cores }) => decimal(cores) },
  {
    name: 'Started',
    numeric: true,
    fold: 'away',
    cell: ({ start_time }) => duration(Math.max(0, now - start_time)),
  },
  {
    name: 'Time left',
    numeric: true,
    cell: (record) => duration(msLeft(record)),
  },
];

export const finishedColumns = (now: number): RunColumn[] => [
  { name: 'Result', cell: statePill, heads: false, fold: 'corner' },
  run,
  test,
  {
    name: 'LLR',
    numeric: true,
    cell: ({ args }) => (args.sprt === undefined ? unknown : decimal(args.sprt.llr, 2)),
  },
  elo,
  pairs,
  games,
  {
    name: 'Finished',
    numeric: true,
    cell: ({ last_updated }) => `${duration(Math.max(0, now - last_updated))} ago`,
  },
];
