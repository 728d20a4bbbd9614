import { type Html, html, Raw } from 'spillway-http';
import {
  bytes,
  type Column,
  card,
  decimal,
  kitStyle,
  lineChart,
  meter,
  notice,
  pageHead,
  type StateName,
  state,
  stats,
  table,
} from 'spillway-http/kit';
import { ageText } from './assessment.ts';
import type { DayQuality, Health, ProductQuality, Quality } from './quality.ts';
import type { Verification } from './verify.ts';

/** Largest number of issues on the page. */
const shownMax = 100;

/**
 * Makes the report as one self-contained page, to keep, send or print. `home` is the address of a
 * link back.
 */
export function qualityPage(quality: Quality, verification?: Verification, home?: string): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Trades: quality ${Math.round(quality.score)} of 100</title>
${new Raw(`<style>${kitStyle}</style>`)}
</head>
<body><main class="page"><div class="stack">
${pageHead({
  title: 'Quality of the trades',
  crumbs: home === undefined ? [] : [{ name: 'Products', href: home }, { name: 'Quality' }],
  about: html`<span class="quiet">Version ${quality.version} of the table, looked at on
<time datetime="${quality.at}">${moment(quality.at)}</time></span>`,
})}
${verification === undefined ? '' : verified(verification)}
${figures(quality)}
${checks(quality)}
${quality.days.length > 1 && days(quality.days)}
${products(quality)}
</div></main></body>
</html>
`.toString();
}

function figures({ score, trades, products: all, spanDays, ...rest }: Quality): Html {
  return stats([
    {
      name: 'Health score',
      value: decimal(score),
      unit: 'of 100',
      note: `gates ${rest.passed ? 'passed' : 'failed'}`,
    },
    { name: 'Trades', value: decimal(trades), note: `of ${decimal(all.length)} products` },
    { name: 'Days', value: decimal(spanDays, 1), note: 'from the first trade to the last' },
    { name: 'Parquet', value: bytes(rest.bytes), note: `${decimal(rest.files)} files` },
    { name: 'Volume', value: decimal(rest.volume), note: 'price times quantity' },
  ]);
}

function verified({ issues, issuesFound, rawFiles, tableFiles }: Verification): Html {
  const looked = `${decimal(rawFiles)} raw and ${decimal(tableFiles)} table files were read.`;
  if (issuesFound === 0) {
    return notice({ verdict: 'Nothing is missing, twice or damaged.', text: looked, tone: 'good' });
  }
  const shown = issues.slice(0, shownMax).map(({ flaw, exchange, product, file, message }) => {
    const where = [exchange, product, file].filter(Boolean).join(' ');
    return html`<li><strong>${flaw}</strong> ${where}: ${message}</li>`;
  });
  const rest = issuesFound > shown.length && html`<p>The first ${shown.length} are shown.</p>`;
  const verdict = `The ledger and the table differ: ${decimal(issuesFound)} issues.`;
  return html`${notice({ verdict, text: looked, tone: 'bad' })}
<details><summary>${decimal(issuesFound)} issues</summary><ul>${shown}</ul>${rest}</details>`;
}

function checks({ checks: all }: Quality): Html {
  const body = table({
    label: 'Rules and what was found',
    rows: all,
    columns: [
      { name: 'Rule', cell: ({ name }) => name },
      {
        name: 'Result',
        cell: ({ passed, isGate }) => {
          if (passed) return state('ok', 'passed');
          return isGate ? state('failed', 'gate failed') : state('warn', 'failed');
        },
        fold: 'corner',
      },
      { name: 'Found', cell: ({ found }) => found, fold: 'whole' },
    ],
  });
  return card({ id: 'checks', title: 'Checks', body, flush: true });
}

function days(all: readonly DayQuality[]): Html {
  const total = all.reduce((sum, { trades }) => sum + trades, 0);
  const points = all.map(({ date, trades }) => [Date.parse(date), trades] as const);
  const ends = [points[0], points.at(-1)];
  const body = lineChart({
    label: `${decimal(total)} trades on ${decimal(all.length)} days.`,
    lines: [{ name: 'trades', points, area: true }],
    formatX: day,
    nameX: 'Day (UTC)',
    ticks: ends.flatMap((end) => (end === undefined ? [] : [{ x: end[0], label: day(end[0]) }])),
  });
  return card({ id: 'days', title: 'Trades a day', body });
}

const shapes: Readonly<Record<Health, StateName>> = {
  good: 'ok',
  attention: 'retry',
  warning: 'warn',
  critical: 'failed',
};
const tones = { good: 'good', attention: 'plain', warning: 'warn', critical: 'bad' } as const;

function completeness({ product, completenessPct, health }: ProductQuality): Html {
  // Rounded down, so that 100 % means all.
  const shown = `${decimal(Math.floor(completenessPct * 100) / 100, 2)} %`;
  const label = `${product}: ${shown} of its ids are there`;
  return html`${shown} ${meter({ share: completenessPct / 100, label, tone: tones[health] })}`;
}

const columns: readonly Column<ProductQuality>[] = [
  { name: 'Product', cell: ({ exchange, product }) => `${exchange} ${product}` },
  { name: 'Health', cell: ({ health }) => state(shapes[health], health), fold: 'corner' },
  { name: 'Complete', cell: completeness, fold: 'named' },
  number('Trades', ({ trades }) => decimal(trades)),
  number('Missing', ({ missing }) => decimal(missing)),
  number('Repeats', ({ duplicates }) => decimal(duplicates)),
  {
    name: 'Newest',
    cell: ({ ageMinutes, freshness }) => `${ageText(ageMinutes)}, ${freshness}`,
    numeric: true,
    fold: 'named',
  },
  number('Longest gap', ({ longestGapMinutes }) => ageText(longestGapMinutes)),
  number('Gaps > 1 h', ({ gapsOverHour }) => decimal(gapsOverHour)),
  number('Gaps > 3σ / 4σ / 5σ', (one) => {
    return `${one.gapsSigma3} / ${one.gapsSigma4} / ${one.gapsSigma5}`;
  }),
  number('Quiet hours', ({ quietHours }) => decimal(quietHours)),
  { name: 'First trade', cell: ({ firstAt }) => moment(firstAt), fold: 'named' },
  { name: 'Last trade', cell: ({ lastAt }) => moment(lastAt), fold: 'named' },
];

function number(name: string, cell: Column<ProductQuality>['cell']): Column<ProductQuality> {
  return { name, cell, numeric: true };
}

function products({ products: all }: Quality): Html {
  const rows = all.toSorted((a, b) => a.completenessPct - b.completenessPct);
  const body = table({ label: 'Quality of each product', rows, columns });
  return card({ id: 'products', title: 'Products', about: decimal(all.length), body, flush: true });
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function moment(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}
