import { type Html, html } from '../html.ts';
import { rounded } from './numbers.ts';

export interface SparklineOptions {
  /** Values from the oldest to the newest. */
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

/** Names of lines with their dashes, where there is no room at their ends. */
export function legend(names: readonly string[]): Html {
  const dashes = ['key', 'key two', 'key three'];
  const items = names.map(
    (name, at) => html`<span><i class="${dashes[at] ?? 'key'}"></i>${name}</span>`,
  );
  return html`<p class="legend">${items}</p>`;
}
