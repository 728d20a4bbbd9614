import { type Html, type HtmlValue, html } from 'spillway-http';
import {
  ago,
  type ButtonOptions,
  button,
  card,
  decimal,
  duration,
  facts,
  gauge,
  meter,
  notice,
  pageHead,
  percent,
  signed,
  spanBar,
  state,
} from 'spillway-http/kit';
import { resultText } from '../../statistics/run-statistics.ts';
import type { Sprt } from '../../statistics/sprt.ts';
import { timeControlRatio } from '../../statistics/time-control.ts';
import { hashSize } from '../../world/request-task.ts';
import { type Run, strengthOf } from '../../world/run.ts';
import { timeText } from '../events.ts';
import { prose } from '../listing.ts';
import type { PageContext } from '../pages.ts';
import { msLeft, pairRatio, ruleText, stateOf, statePill } from './cells.ts';
import { pairBars } from './pair-bars.ts';

/** The role of a visitor in a run. */
export type RunRole = 'approver' | 'owner' | 'user' | '';

const smallBook = 100_000;

/** Title, state and actions. Each action is a link to a dialog that stands below the live part. */
export function runHead(run: Run, role: RunRole): Html {
  const { record, args, id } = run;
  const { finished, approved, deleted } = record;
  const mayChange = role === 'approver' || role === 'owner';
  const dialog = (label: string, opens: string, more: Partial<ButtonOptions> = {}) =>
    button({ label, opens, ...more });
  const notNow = (isNow: boolean, reason: string) => !isNow && { disabledBecause: reason };
  const buttons = [
    role === 'approver' && !approved && !finished && dialog('Approve…', 'approve', main),
    approved && !finished && mayChange && dialog('Pause…', 'pause'),
    mayChange && dialog('Modify…', 'modify'),
    role !== '' && button({ label: 'Repeat', href: `/tests/run?id=${id}` }),
    mayChange &&
      dialog('Purge…', 'purge', { ...notNow(finished, 'Only a finished run can be purged') }),
    mayChange && !finished && dialog('Stop…', 'stop', { danger: true }),
    mayChange && finished && !deleted && dialog('Delete…', 'delete', { danger: true }),
  ];
  const compare = `${args.tests_repo}/compare/${args.resolved_base}...${args.resolved_new}`;
  const about = html`${statePill(record)}<span class="quiet">against
<span class="mono">${args.base_tag}</span> ·
<a href="${compare}" rel="noreferrer">compare the code</a></span>`;
  const crumbs = [{ name: 'Runs', href: '/tests' }, { name: id.slice(0, 12) }];
  return pageHead({ title: args.new_tag, about, crumbs, actions: html`${buttons}` });
}

const main = { look: 'main' } as const;

/** Everything about a run except its tasks. */
export function runSummary(context: PageContext, run: Run): { verdict: Html; cards: Html[] } {
  return {
    verdict: verdictOf(run, context.clock.now()),
    cards: [resultCard(run), notesCard(context, run), settingsCard(run)].filter(
      (one) => one !== undefined,
    ),
  };
}

/** The state of a run in one sentence, with what happens next. */
function verdictOf(run: Run, now: number): Html {
  const { record, args, games } = run;
  const age = html`<span class="quiet small">Updated ${ago(now - record.last_updated)}</span>`;
  const tell = (verdict: string, text: string, tone?: 'good' | 'bad' | 'warn') =>
    notice({ verdict, text, tone, action: age, live: true });
  if (record.failed) {
    return tell(
      'Failed.',
      'A worker could not build or run it; see the events of this run.',
      'bad',
    );
  }
  if (record.deleted) return tell('Deleted.', 'It is in no list any more.');
  if (record.finished) {
    const [, word] = stateOf(record);
    const [text, tone] = endings[word] ?? ['Without a verdict,'];
    const verdict = tone === undefined ? 'Ended.' : `${word}.`;
    return tell(verdict, `${text} after ${decimal(games)} games.`, tone);
  }
  if (record.workers === 0) {
    return record.approved
      ? tell('Waits for a machine.', 'It has its approval, and is played when a worker is free.')
      : tell('Waits for an approver.', 'Nobody plays it before somebody else has approved it.');
  }
  const left = msLeft(record);
  const rest = !left ? '' : ` About ${duration(left)} left with its cores.`;
  const { sprt, spsa } = args;
  if (spsa !== undefined) {
    const done = `${decimal(spsa.iter)} of ${decimal(spsa.num_iter)} iterations are done.`;
    return tell('Is being tuned.', `${done}${rest}`);
  }
  if (sprt === undefined) {
    return tell(
      'Is being played.',
      `${decimal(games)} of ${decimal(args.num_games)} games.${rest}`,
    );
  }
  const { llr: ratio, upper_bound: upper, lower_bound: lower } = sprt;
  const text =
    `The LLR is ${decimal(ratio, 2)}; at ${decimal(upper, 2)} the change is accepted, at ` +
    `${decimal(lower, 2)} it is rejected.${rest}`;
  if (ratio > upper / 2) return tell('On its way to pass.', text, 'good');
  return ratio < lower / 2 ? tell('On its way to fail.', text, 'warn') : tell('Undecided.', text);
}

/** Sentences about runs that have ended with a verdict, by their state. */
const endings: Readonly<Record<string, readonly [text: string, tone?: 'good' | 'bad' | 'warn']>> = {
  Accepted: ['The change passed', 'good'],
  'Rejected, ahead': ['It won more than it lost, and failed', 'warn'],
  Rejected: ['The change failed', 'bad'],
  Tuned: ['The values stand below,', 'good'],
};

function resultCard(run: Run): Html {
  const { record, args, games } = run;
  const { sprt, spsa } = args;
  const { info } = resultText(args, record.results);
  const links = html`<p class="small"><a href="/tests/stats/${run.id}">Raw statistics</a>
${sprt !== undefined && html`· <a href="/tests/live_elo/${run.id}">Live gauges</a>`}
${spsa === undefined && html`· <a href="/api/run_pgns/${run.id}.pgn.gz">Games (PGN)</a>`}
· <a href="/actions?run_id=${run.id}">Events</a></p>`;
  const measures = spsa === undefined && games > 0 && measuresOf(run);
  const body = html`<div class="result">${measures}
<pre id="raw" class="small raw" tabindex="0">${info.join('\n')}</pre>
<div class="spread">${links}<button type="button" class="button little" data-copies="raw">
Copy</button></div></div>`;
  return card({ id: 'result', title: 'Result', about: `${decimal(games)} games`, body });
}

function eloGauge(elo: number, low: number, high: number): Html {
  const reach = Math.max(4, Math.ceil(Math.max(Math.abs(low), Math.abs(high)) / 4) * 4);
  return gauge({
    value: elo,
    error: [low, high],
    scale: [-reach, reach],
    marks: [-reach, -reach / 2, 0, reach / 2, reach],
    format: (value) => signed(value),
    label: `Elo ${signed(elo, 2)}, with 95 % certainty ${signed(low, 2)} to ${signed(high, 2)}`,
  });
}

/** LLR, Elo, the chance to be stronger, and the pairs, as charts. */
export function measuresOf(run: Run): Html {
  const { results } = run.record;
  const { sprt } = run.args;
  const { elo, low, high, los } = strengthOf(run);
  const ratio = pairRatio(results);
  const won = ratio !== undefined && `${decimal(ratio, 2)} won for each lost`;
  return html`${sprt !== undefined && llrMeasure(sprt)}
<div class="measure"><span class="quiet">Elo</span><b>${signed(elo, 2)}
<small>${signed(low, 2)} to ${signed(high, 2)}</small></b></div>${eloGauge(elo, low, high)}
<div class="measure"><span class="quiet">Chance to be stronger</span>
<b>${percent(los, 1)}</b></div>
${meter({ share: los, tone: 'good', label: `Chance to be stronger: ${percent(los, 1)}` })}
<div class="measure"><span class="quiet">Pairs by points</span>
<span class="quiet small">${won}</span></div>${pairBars(results, 'large')}`;
}

function llrMeasure({ llr: value, lower_bound: from, upper_bound: to }: Sprt): Html {
  const label = `LLR ${decimal(value, 2)} between ${decimal(from, 2)} and ${decimal(to, 2)}`;
  return html`<div class="measure"><span class="quiet">LLR</span><b>${decimal(value, 2)}</b></div>
<div>${spanBar({ value, from, to, label })}<div class="chart-x"><span>${decimal(from, 2)}</span>
<span>0</span><span>${decimal(to, 2)}</span></div></div>`;
}

function notesCard({ files, ancestry }: PageContext, run: Run): Html | undefined {
  const { args, record } = run;
  const warnings: HtmlValue[] = [];
  const warn = (isTrue: boolean, text: HtmlValue) => isTrue && warnings.push(text);
  const ratio = timeControlRatio(args.tc, args.threads);
  const isOdd = (hash: number) => {
    const share = hash / ((64 * ratio) / 6);
    return ratio >= 5 && (share < 0.6 || share > 1.5);
  };
  const hashes = [args.new_options, args.base_options].map(hashSize);
  const book = files.books.books.get(args.book);
  warn(args.throughput > 100, `The throughput is ${args.throughput} %.`);
  warn(args.priority > 0, `The priority is ${args.priority}: other runs wait for it.`);
  warn(hashes.some(isOdd), `The hash of ${hashes.join(' and ')} MB is unusual for this time.`);
  warn(args.new_options !== args.base_options, 'The two engines have different options.');
  warn(record.failures > 0, `${record.failures} workers reported a failure of this run.`);
  warn(args.new_tc !== args.tc, `Time odds: the new engine plays with ${args.new_tc}.`);
  warn(args.arch_filter !== undefined, `Only machines that match ${args.arch_filter} play it.`);
  warn(args.compiler !== undefined, `Only machines with ${args.compiler} play it.`);
  warn(book !== undefined && book.total < smallBook, 'The book has few openings.');
  warn(args.master_repo !== undefined, `It is a fork of ${args.master_repo}.`);
  warnings.push(...ancestry.of(run));
  const notes: HtmlValue[] = [];
  if (args.new_signature === args.base_signature && args.spsa === undefined) {
    notes.push('Both engines have the same bench: the change does not alter it.');
  }
  if (record.deleted) notes.push('This run was deleted.');
  if (record.rescheduled_from !== undefined) {
    const href = `/tests/view/${record.rescheduled_from}`;
    notes.push(html`It repeats <a href="${href}">an earlier run</a>.`);
  }
  if (warnings.length + notes.length === 0) return undefined;
  const line = (name: 'warn' | 'pending', text: HtmlValue) =>
    html`<li>${state(name, '', 'bare')}<span>${text}</span></li>`;
  return card({
    id: 'notes',
    title: 'Worth knowing',
    about: decimal(warnings.length + notes.length),
    body: html`<ul class="warnings words">${warnings.map((text) => line('warn', text))}${notes.map(
      (text) => line('pending', text),
    )}</ul>`,
  });
}

function settingsCard({ args, record, id }: Run): Html {
  const mono = (text: string) => html`<span class="mono small">${text}</span>`;
  const commit = (sha: string, bench: string) =>
    html`<a class="mono" href="${args.tests_repo}/commit/${sha}"
 rel="noreferrer">${sha.slice(0, 7)}</a>, bench ${mono(bench)}`;
  const submitted = timeText(record.start_time).slice(0, -3);
  const approved = record.approver === '' ? 'not approved' : `approved by ${record.approver}`;
  const sameTime = args.new_tc === args.tc ? '' : ` (new: ${args.new_tc})`;
  const nets = [...new Set([...args.new_nets, ...args.base_nets])].join(', ');
  const { sprt } = args;
  const model = sprt === undefined ? '' : ` ${sprt.elo_model ?? 'BayesElo'}, α = β = 0.05`;
  return card({
    id: 'settings',
    title: 'Settings',
    body: facts([
      [
        'Submitted',
        html`<a href="/tests/user/${args.username}">${args.username}</a>,
${submitted}; ${approved}`,
      ],
      ['What', args.info === '' ? '–' : prose(args.info)],
      ['New', commit(args.resolved_new, args.new_signature)],
      ['Base', commit(args.resolved_base, args.base_signature)],
      ['Rule', `${ruleText(args)}${model}`],
      ['Games', decimal(args.num_games)],
      [
        'Time',
        html`${mono(args.tc)}${sameTime}, ${args.threads}
${args.threads === 1 ? 'thread' : 'threads'}`,
      ],
      ['Options', html`${mono(args.new_options)} / ${mono(args.base_options)}`],
      ['Book', mono(`${args.book}, depth ${args.book_depth}`)],
      ['Nets', nets === '' ? '–' : mono(nets)],
      ['Repository', html`<a href="${args.tests_repo}" rel="noreferrer">${args.tests_repo}</a>`],
      ['Priority', `${decimal(args.priority)}, throughput ${args.throughput} %`],
      ['Adjudication', args.adjudication ? 'on' : 'off'],
      ['Auto purge', args.auto_purge ? 'on' : 'off'],
      ['Run ID', mono(id)],
    ]),
  });
}
