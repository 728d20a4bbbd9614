import { type Html, html } from '../html.ts';
import { decimal, percent, position, rounded } from './numbers.ts';

// All bars are SVG without a view box: shares are percentages in attributes, since a strict policy
// allows no inline style.

export interface MeterOptions {
  /** Share from 0 to 1. */
  readonly share: number;
  /** Description in one sentence, for screen readers. @default the percentage */
  readonly label?: string | undefined;
  /** @default 'plain' */
  readonly tone?: 'plain' | 'good' | 'warn' | 'bad' | undefined;
  /** True for a thin line. @default false */
  readonly thin?: boolean | undefined;
}

/** A share as a bar from 0 to the limit. */
export function meter({ share, label, tone = 'plain', thin = false }: MeterOptions): Html {
  const width = position(share, 0, 1);
  const kind = tone === 'plain' ? undefined : tone;
  return html`<svg class="${thin ? 'meter thin' : 'meter'}" role="img"
 aria-label="${label ?? percent(share)}"><rect class="${kind}" width="${width}%"></rect></svg>`;
}

export interface SpanBarOptions {
  readonly value: number;
  /** Lower bound, below 0. */
  readonly from: number;
  /** Upper bound, above 0. */
  readonly to: number;
  /** Description in one sentence, for screen readers. */
  readonly label: string;
}

/** A value between two bounds, filled from zero: the log-likelihood ratio of a test. */
export function spanBar({ value, from, to, label }: SpanBarOptions): Html {
  const zero = position(0, from, to);
  const at = position(value, from, to);
  const width = rounded(Math.abs(at - zero));
  const kind = value < 0 ? 'down' : 'up';
  return html`<svg class="span-bar" role="img" aria-label="${label}">
<rect class="track" y="25%" width="100%" height="50%" rx="2"></rect>
<rect class="${kind}" x="${Math.min(at, zero)}%" y="25%" width="${width}%" height="50%"></rect>
<line class="zero" x1="${zero}%" x2="${zero}%" y2="100%"></line>
<line class="end down" x1="0" x2="0" y2="100%"></line>
<line class="end up" x1="100%" x2="100%" y2="100%"></line></svg>`;
}

export interface GaugeOptions {
  readonly value: number;
  /** Interval of the error around the value. */
  readonly error: readonly [from: number, to: number];
  /** Ends of the scale. */
  readonly scale: readonly [from: number, to: number];
  /** Numbers written below the scale. @default its ends and zero */
  readonly marks?: readonly number[] | undefined;
  /** Description in one sentence, for screen readers. */
  readonly label: string;
  /** Makes the text of a value. */
  readonly format?: ((value: number) => string) | undefined;
}

/** A value with its error on a scale; the part above zero is the target. */
export function gauge(options: GaugeOptions): Html {
  const { value, error, scale, label, format = (number) => decimal(number) } = options;
  const { marks = [scale[0], 0, scale[1]] } = options;
  const at = (number: number): number => position(number, scale[0], scale[1]);
  const low = at(error[0]);
  const high = at(error[1]);
  const width = rounded(100 - at(0));
  const numbers = marks.map((mark) => {
    const place = at(mark);
    const edge = place === 100 && 'end';
    const kind = place === 0 ? 'start' : edge;
    return html`<text class="${kind}" x="${place}%" y="44">${format(mark)}</text>`;
  });
  return html`<svg class="gauge" role="img" aria-label="${label}">
<rect class="track" y="14" width="100%" height="8" rx="4"></rect>
<rect class="target" x="${at(0)}%" y="14" width="${width}%" height="8"></rect>
<line class="mark" x1="${at(0)}%" x2="${at(0)}%" y1="8" y2="28"></line>
<line class="error" x1="${low}%" x2="${high}%" y1="18" y2="18"></line>
<line class="error" x1="${low}%" x2="${low}%" y1="12" y2="24"></line>
<line class="error" x1="${high}%" x2="${high}%" y1="12" y2="24"></line>
<circle class="value" cx="${at(value)}%" cy="18" r="6"></circle>
${numbers}</svg>`;
}

/** The state of a cell: free, in use, waiting, done, or tried again. */
export type CellKind = 'free' | 'on' | 'wait' | 'done' | 'again';

const cellsMax = 32;

/** One cell for each thing, such as each permit; more than 32 are drawn as a meter. */
export function cells(kinds: readonly CellKind[], label: string): Html {
  if (kinds.length > cellsMax) {
    const used = kinds.filter((kind) => kind !== 'free').length;
    return meter({ share: used / kinds.length, label });
  }
  const boxes = kinds.map((kind) => html`<i class="${kind === 'free' ? undefined : kind}"></i>`);
  return html`<span class="cells" role="img" aria-label="${label}">${boxes}</span>`;
}
