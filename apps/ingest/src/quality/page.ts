import { type Html, html, Raw } from 'spillway-http';
import { ageText } from './assessment.ts';
import type { DayQuality, ProductQuality, Quality } from './quality.ts';
import type { Verification } from './verify.ts';

/** Products that are drawn, the worst first; the table has all of them. */
const drawnMax = 20;
const columnsMax = 120;
/** Issues that the page lists. */
const shownMax = 100;

/** The report as one page that needs nothing else: it can be kept, sent and printed. */
export function qualityPage(quality: Quality, verification?: Verification): string {
  const { products, days } = quality;
  const title = `Trades: quality ${Math.round(quality.score)} of 100`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
${new Raw(`<style>${qualityStyle}</style>`)}
</head>
<body>
<main>
<h1>Quality of the trades</h1>
<p class="muted">Version ${quality.version} of the table, looked at on
  <time datetime="${quality.at}">${moment(quality.at)}</time>.</p>
${headline(quality)}
${verification === undefined ? '' : verified(verification)}
${checks(quality)}
<section aria-labelledby="days"><h2 id="days">Trades a day</h2>${daysPlot(days)}</section>
<section aria-labelledby="complete"><h2 id="complete">Completeness</h2>
${completenessPlot(products)}</section>
<section aria-labelledby="age"><h2 id="age">Age of the newest trade</h2>
${agePlot(products)}</section>
${table(products)}
</main>
</body>
</html>
`.toString();
}

function headline(quality: Quality): Html {
  const { score, trades, products, spanDays, bytes, volume, passed } = quality;
  const tone = score >= 90 ? 'good' : score >= 70 ? 'warning' : 'critical';
  const figures: readonly (readonly [string, string])[] = [
    ['trades', count(trades)],
    ['products', count(products.length)],
    ['days from first to last', count(Math.round(spanDays * 10) / 10)],
    ['Parquet', size(bytes)],
    ['volume', count(Math.round(volume))],
  ];
  return html`<dl class="figures">
    <div class="score ${tone}"><dt>health score</dt><dd>${Math.round(score)}</dd></div>
    ${figures.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}
    <div><dt>gates</dt><dd>${passed ? 'passed' : 'failed'}</dd></div>
  </dl>`;
}

function verified({ issues, issuesFound, rawFiles, tableFiles }: Verification): Html {
  const looked = `${count(rawFiles)} raw and ${count(tableFiles)} table files were read`;
  const outcome = issuesFound === 0 ? 'nothing is missing, twice or damaged' : 'not all is well';
  const shown = issues.slice(0, shownMax);
  const list = html`<details><summary>${count(issuesFound)} issues</summary>
    <ul>${shown.map(({ flaw, exchange, product, file, message }) => {
      const where = [exchange, product, file].filter(Boolean).join(' ');
      return html`<li><strong>${flaw}</strong> ${where}: ${message}</li>`;
    })}</ul>
    ${issuesFound > shown.length ? html`<p>The first ${shown.length} are shown.</p>` : ''}
  </details>`;
  return html`<section aria-labelledby="verified"><h2 id="verified">Against the ledger</h2>
    <p>${looked}: ${outcome}.</p>${issuesFound === 0 ? '' : list}</section>`;
}

function checks({ checks: all }: Quality): Html {
  return html`<section aria-labelledby="checks"><h2 id="checks">Checks</h2>
    <table><thead><tr><th scope="col">Result</th><th scope="col">Rule</th>
      <th scope="col">Found</th></tr></thead>
    <tbody>${all.map(({ name, passed, isGate, found }) => {
      const result = passed ? 'passed' : isGate ? 'gate failed' : 'failed';
      const tone = passed ? 'good' : isGate ? 'critical' : 'warning';
      return html`<tr><td><span class="badge ${tone}">${result}</span></td>
        <td>${name}</td><td>${found}</td></tr>`;
    })}</tbody></table></section>`;
}

function daysPlot(days: readonly DayQuality[]): Html {
  const step = Math.max(1, Math.ceil(days.length / columnsMax));
  const bars: Bar[] = [];
  for (let at = 0; at < days.length; at += step) {
    const some = days.slice(at, at + step);
    const value = some.reduce((sum, { trades }) => sum + trades, 0) / some.length;
    const text = `${count(Math.round(value))}${step === 1 ? '' : ' a day'}`;
    bars.push({ label: some[0]?.date ?? '', value, text, tone: 'plain' });
  }
  const total = days.reduce((sum, { trades }) => sum + trades, 0);
  return columnsPlot(bars, {
    id: 'plot-days',
    title: 'Trades a day',
    description: `${count(total)} trades on ${count(days.length)} days.`,
  });
}

function completenessPlot(products: readonly ProductQuality[]): Html {
  const worst = products.toSorted((a, b) => a.completenessPct - b.completenessPct);
  const bars = worst.slice(0, drawnMax).map((product): Bar => {
    const { completenessPct: value, missing } = product;
    const low = value < 90 ? 'critical' : value < 95 ? 'warning' : 'attention';
    const shown = missing > 0 && value > 99.99 ? '< 100' : value.toFixed(2);
    const text = `${shown} %, ${count(missing)} missing`;
    return { label: product.product, value, text, tone: value < 99 ? low : 'good' };
  });
  return rowsPlot(bars, 100, {
    id: 'plot-complete',
    title: 'Share of ids that are there, by product, the worst first',
    description: bars.map(({ label, text }) => `${label}: ${text}`).join('; '),
  });
}

function agePlot(products: readonly ProductQuality[]): Html {
  const oldest = products.toSorted((a, b) => b.ageMinutes - a.ageMinutes);
  // By its logarithm: minutes and months have to fit on one scale.
  const scale = (minutes: number) => Math.log10(1 + minutes);
  const tones = {
    fresh: 'good',
    recent: 'attention',
    aging: 'warning',
    stale: 'critical',
  } as const;
  const bars = oldest.slice(0, drawnMax).map(({ product, ageMinutes, freshness }): Bar => {
    const text = `${ageText(ageMinutes)}, ${freshness}`;
    return { label: product, value: scale(ageMinutes), text, tone: tones[freshness] };
  });
  return rowsPlot(bars, Math.max(scale(1440), ...bars.map(({ value }) => value)), {
    id: 'plot-age',
    title: 'Age of the newest trade, by product, the oldest first',
    description: bars.map(({ label, text }) => `${label}: ${text}`).join('; '),
  });
}

const numbers: readonly (readonly [string, (product: ProductQuality) => string])[] = [
  ['Trades', ({ trades }) => count(trades)],
  ['Missing', ({ missing }) => count(missing)],
  ['Repeats', ({ duplicates }) => count(duplicates)],
  ['Longest gap', ({ longestGapMinutes }) => ageText(longestGapMinutes)],
  ['Gaps > 1 h', ({ gapsOverHour }) => count(gapsOverHour)],
  ['Gaps > 3σ / 4σ / 5σ', (one) => `${one.gapsSigma3} / ${one.gapsSigma4} / ${one.gapsSigma5}`],
  ['Quiet hours', ({ quietHours }) => count(quietHours)],
];

function table(products: readonly ProductQuality[]): Html {
  return html`<section aria-labelledby="products"><h2 id="products">Products</h2>
    <div class="wide" tabindex="0" role="region" aria-labelledby="products">
    <table><thead><tr><th scope="col">Product</th><th scope="col">Health</th>
      ${numbers.map(([name]) => html`<th scope="col" class="number">${name}</th>`)}
      <th scope="col">First trade</th><th scope="col">Last trade</th></tr></thead>
    <tbody>${products.map((one) => {
      return html`<tr><th scope="row">${one.exchange} ${one.product}</th>
        <td><span class="badge ${one.health}">${one.health}</span></td>
        ${numbers.map(([, text]) => html`<td class="number">${text(one)}</td>`)}
        <td>${moment(one.firstAt)}</td><td>${moment(one.lastAt)}</td></tr>`;
    })}</tbody></table></div></section>`;
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

function moment(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}

/** One bar: where it stands, how long it is, and how it reads. */
export interface Bar {
  readonly label: string;
  /** From 0 up. */
  readonly value: number;
  /** The value in words, as it is shown. */
  readonly text: string;
  /** Colour, one of those of the page. */
  readonly tone: 'plain' | 'good' | 'attention' | 'warning' | 'critical';
}

export interface PlotOptions {
  /** Unique on the page, for the title to be found by. */
  readonly id: string;
  readonly title: string;
  /** Text for somebody who cannot see the plot. */
  readonly description: string;
}

const width = 720;
const rowHeight = 26;
const labelWidth = 190;
const valueWidth = 190;

/** One bar below the other: for things with names. */
export function rowsPlot(bars: readonly Bar[], max: number, options: PlotOptions): Html {
  const height = Math.max(1, bars.length) * rowHeight;
  const room = width - labelWidth - valueWidth;
  const rows = bars.map(({ label, value, text, tone }, at) => {
    const length = Math.max(2, (room * Math.min(value, max)) / (max || 1)).toFixed(1);
    const [y, middle] = [at * rowHeight, at * rowHeight + 17];
    return html`<g>
      <text x="${labelWidth - 10}" y="${middle}" text-anchor="end">${label}</text>
      <rect x="${labelWidth}" y="${y + 4}" width="${room}" height="18" rx="3" class="track"></rect>
      <rect x="${labelWidth}" y="${y + 4}" width="${length}" height="18" rx="3"
        class="${tone}"></rect>
      <text x="${labelWidth + room + 10}" y="${middle}">${text}</text>
    </g>`;
  });
  return figure(height, rows, options);
}

/** A few days do not fill the page. */
const columnWidthMax = 40;
const columnsHeight = 220;
const columnsTop = 24;
const columnsFoot = 24;

/** One bar beside the other: for days, of which the first and the last are named. */
export function columnsPlot(bars: readonly Bar[], options: PlotOptions): Html {
  const max = Math.max(1, ...bars.map(({ value }) => value));
  const room = columnsHeight - columnsTop - columnsFoot;
  const step = Math.min(columnWidthMax, width / Math.max(1, bars.length));
  const foot = columnsHeight - columnsFoot;
  const top = bars.find(({ value }) => value === max);
  const columns = bars.map(({ label, value, text, tone }, at) => {
    const length = Math.max(1, (room * value) / max);
    return html`<rect x="${(at * step).toFixed(2)}" y="${(foot - length).toFixed(1)}"
      width="${Math.max(1, step - (step > 4 ? 2 : 0)).toFixed(2)}" height="${length.toFixed(1)}"
      class="${tone}"><title>${label}: ${text}</title></rect>`;
  });
  const last = bars.length > 1 ? bars.at(-1)?.label : '';
  return figure(
    columnsHeight,
    [
      html`<line x1="0" x2="${width}" y1="${columnsTop}" y2="${columnsTop}" class="rule"></line>`,
      html`<text x="0" y="${columnsTop - 8}">at most ${top?.text ?? 'none'}</text>`,
      ...columns,
      html`<text x="0" y="${columnsHeight - 6}">${bars[0]?.label ?? ''}</text>`,
      html`<text x="${Math.max(200, step * bars.length)}" y="${columnsHeight - 6}"
        text-anchor="end">${last}</text>`,
    ],
    options,
  );
}

function figure(height: number, content: readonly Html[], options: PlotOptions): Html {
  const { id, title, description } = options;
  return html`<svg role="img" aria-labelledby="${id}-title ${id}-about"
    viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">
    <title id="${id}-title">${title}</title><desc id="${id}-about">${description}</desc>
    ${content}
  </svg>`;
}

/** Style of the report: dark where the reader's machine is dark, plain on paper. */
export const qualityStyle = `
:root { color-scheme: light dark; --ground: #ffffff; --text: #1b2430; --muted: #566273;
  --rule: #d9dfe7; --track: #eef1f5; --plain: #2f6fb3; --good: #1f7a4d; --attention: #8a6d00;
  --warning: #b45309; --critical: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ground: #12171e; --text: #e6ebf2;
  --muted: #9aa7b8; --rule: #2c3643; --track: #1d2530; --plain: #6aa5e0; --good: #4fbf8b;
  --attention: #d9b93b; --warning: #f09a4b; --critical: #f47d72; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 10px; }
.muted { color: var(--muted); margin: 0; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 0; }
.figures div { border: 1px solid var(--rule); border-radius: 8px; padding: 10px 16px; }
.figures dt { color: var(--muted); font-size: 13px; }
.figures dd { margin: 0; font-size: 22px; font-variant-numeric: tabular-nums; }
.figures .score { border-width: 2px; }
.score.good { border-color: var(--good); } .score.warning { border-color: var(--warning); }
.score.critical { border-color: var(--critical); }
progress { width: 150px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; font-weight: normal; }
thead th { color: var(--muted); font-size: 13px; }
.number { text-align: right; }
.wide { overflow-x: auto; }
.badge { border: 1px solid currentColor; border-radius: 10px; padding: 0 8px; font-size: 13px; }
.badge.good { color: var(--good); } .badge.attention { color: var(--attention); }
.badge.warning { color: var(--warning); } .badge.critical { color: var(--critical); }
svg { display: block; width: 100%; height: auto; max-width: 720px; }
svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
rect.track { fill: var(--track); } rect.plain { fill: var(--plain); }
rect.good { fill: var(--good); } rect.attention { fill: var(--attention); }
rect.warning { fill: var(--warning); } rect.critical { fill: var(--critical); }
line.rule { stroke: var(--rule); }
@media print { .wide { overflow: visible; } }
`;
