import { type Html, html } from '../html.ts';
import { decimal } from './numbers.ts';

export interface SparklineOptions {
  readonly values: readonly number[];
  /** Sentence that says what is seen. */
  readonly label: string;
  /** Upper end of the range: the limit, so that calm looks calm. @default the largest value */
  readonly max?: number | undefined;
  /** Lower end of the range. @default 0 */
  readonly min?: number | undefined;
  /** @default 'plain' */
  readonly tone?: 'plain' | 'warn' | undefined;
}

/** A line without words, beside a figure or in a row. */
export function sparkline(options: SparklineOptions): Html {
  const { values, label, min = 0, tone = 'plain' } = options;
  const max = options.max ?? Math.max(min, ...values);
  const step = values.length > 1 ? 1_000 / (values.length - 1) : 0;
  const places = values.map((value, at) => {
    const share = max > min ? (Math.min(max, Math.max(min, value)) - min) / (max - min) : 0;
    return `${rounded(at * step)} ${rounded(100 - share * 100)}`;
  });
  const line = places.length > 0 ? `M${places.join('L')}` : '';
  const area = places.length > 0 ? `${line}L${rounded((values.length - 1) * step)} 100L0 100Z` : '';
  return html`<svg class="${tone === 'warn' ? 'spark warn' : 'spark'}" viewBox="0 0 1000 100"
 preserveAspectRatio="none" role="img" aria-label="${label}">
<path class="area" d="${area}"></path><path d="${line}"></path></svg>`;
}

export interface Bar {
  readonly name: string;
  readonly value: number;
}

export interface BarChartOptions {
  /** Sentence that says what is seen. */
  readonly label: string;
  readonly bars: readonly Bar[];
  readonly format?: ((value: number) => string) | undefined;
  /** Name of what the bars are of, for the table. @default 'Name' */
  readonly nameX?: string | undefined;
}

/** Bars with their values above and their names below, from zero. */
export function barChart(options: BarChartOptions): Html {
  const { label, bars, format = (value: number) => decimal(value), nameX = 'Name' } = options;
  const highest = Math.max(1, ...bars.map(({ value }) => value));
  const width = rounded(100 / Math.max(1, bars.length));
  const shapes = bars.map(({ name, value }, at) => {
    const height = Math.max(0.8, rounded((value / highest) * 80));
    const top = rounded(90 - height);
    const middle = rounded((at + 0.5) * width);
    return html`<rect class="bar-shape" x="${rounded(at * width + width * 0.1)}%" y="${top}%"
 width="${rounded(width * 0.8)}%" height="${height}%" rx="2"></rect>
<text class="middle" x="${middle}%" y="${top}%" dy="-4">${format(value)}</text>
<text class="middle" x="${middle}%" y="90%" dy="14">${name}</text>`;
  });
  const rows = bars.map(
    ({ name, value }) =>
      html`<tr><th scope="row">${name}</th><td class="num">${format(value)}</td></tr>`,
  );
  return html`<figure class="chart">
<svg class="plot" role="img" aria-label="${label}">${shapes}
<line class="axis" x2="100%" y1="90%" y2="90%"></line></svg>
<details class="small quiet as-table"><summary>Show as a table</summary>
<table class="table dense"><thead><tr><th scope="col">${nameX}</th>
<th scope="col" class="num">Value</th></tr></thead><tbody>${rows}</tbody></table></details>
</figure>`;
}

/** Names of lines with their dashes, where there is no room at their ends. */
export function legend(names: readonly string[]): Html {
  const dashes = ['key', 'key two', 'key three'];
  const items = names.map(
    (name, at) => html`<span><i class="${dashes[at] ?? 'key'}"></i>${name}</span>`,
  );
  return html`<p class="legend">${items}</p>`;
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
