import { type Html, type HtmlValue, html } from '../html.ts';
import { decimal, rounded } from './numbers.ts';
import { classes } from './parts.ts';

/** A point. If y is undefined the value is unknown, and the line has a gap there. */
export type Point = readonly [x: number, y: number | undefined];

/** One line of a chart. */
export interface ChartLine {
  readonly name: string;
  /** Points from left to right. */
  readonly points: readonly Point[];
  /** True to tint the area below the line. @default false */
  readonly area?: boolean | undefined;
  /** Interval around each point, such as its error. @default none */
  readonly band?: readonly (readonly [x: number, from: number, to: number])[] | undefined;
}

/** A bound that is drawn and named on the chart. */
export interface ChartBound {
  readonly y: number;
  /** Name beside it, such as `2.94 accept`. */
  readonly label: string;
  /** Good above it, bad below it, or a limit that must not be exceeded. */
  readonly kind: 'up' | 'down' | 'limit';
}

/** A word below the chart. */
export interface ChartTick {
  readonly x: number;
  readonly label: string;
}

export interface LineChartOptions {
  /** Description of the picture in one sentence, for screen readers. */
  readonly label: string;
  /** One to five lines, told apart by their dashes. */
  readonly lines: readonly ChartLine[];
  /** Ends of the vertical range. @default zero and all shown values */
  readonly range?: readonly [from: number, to: number] | undefined;
  /** Ends of the horizontal range. @default first and last point */
  readonly domain?: readonly [from: number, to: number] | undefined;
  /** Horizontal lines with a name. @default none */
  readonly bounds?: readonly ChartBound[] | undefined;
  /** Words below, from left to right. @default none */
  readonly ticks?: readonly ChartTick[] | undefined;
  /** Writes a value at the end of a line and in the table. @default whole numbers */
  readonly format?: ((y: number) => string) | undefined;
  /** Writes a number beside the grid. @default as many decimals as the grid needs */
  readonly formatGrid?: ((y: number) => string) | undefined;
  /** Writes a place on the horizontal axis, for the table and the arrow keys. */
  readonly formatX?: ((x: number) => string) | undefined;
  /** Name of the horizontal axis, for the table. @default 'At' */
  readonly nameX?: string | undefined;
  /** Share of the width that stays free on the right, for labels and new points. @default 0.12 */
  readonly room?: number | undefined;
  /** @default 'middle' */
  readonly size?: 'low' | 'middle' | 'tall' | undefined;
  /** True if "Show as a table" is below the chart. @default true */
  readonly table?: boolean | undefined;
}

const dashes = [undefined, 'two', 'three', 'four', 'five'] as const;
const linesMax = dashes.length;
/** Most points of a line in the picture, and most rows of its table. */
const pointsMax = 500;
const rowsMax = 24;

/** Places in percent of the plot. */
interface Scales {
  readonly x: (value: number) => number;
  readonly y: (value: number) => number;
  readonly from: number;
  readonly to: number;
}

/**
 * Lines over time as SVG. Grid and words are placed by percentages, so that text never stretches;
 * only the lines are stretched, with strokes that do not scale. Bounds are named on the chart.
 */
export function lineChart(options: LineChartOptions): Html {
  const { label, bounds = [], format = (y: number) => decimal(y), size = 'middle' } = options;
  const lines = options.lines.slice(0, linesMax).map(thinned);
  const scales = scalesOf({ ...options, lines });
  const { formatX = (x: number) => decimal(x), table = true } = options;
  const kind = classes('plot', { low: size === 'low', tall: size === 'tall' });
  const texts = points(lines, scales, { format, formatX });
  return html`<figure class="chart" data-points="${texts}">
<svg class="${kind}" tabindex="0" role="img" aria-label="${label}">
${bounds.map((bound) => zone(bound, scales))}${grid(scales, options)}
<svg class="lines" viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="100%">
${lines.map((line, at) => paths(line, at, scales))}</svg>
${bounds.map((bound) => boundLine(bound, scales))}
<line class="cursor" y2="100%"></line>
${lines.map((line, at) => lastPoint(line, at, lines.length, { ...scales, format }))}</svg>
<output></output>
${lines.length > 1 && html`<div class="phone-only">${legend(lines.map(({ name }) => name))}</div>`}
${ticks(options.ticks ?? [], scales)}
${table && asTable(lines, { ...options, format, formatX })}</figure>`;
}

/** Thins a line evenly to the points that can be drawn, and keeps the last one. */
function thinned(line: ChartLine): ChartLine {
  const { points: all, band } = line;
  if (all.length <= pointsMax) return line;
  return { ...line, points: sample(all, pointsMax), band: band && sample(band, pointsMax) };
}

function sample<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items];
  const step = (items.length - 1) / (count - 1);
  return Array.from({ length: count }, (_, at) => items[Math.round(at * step)] as T);
}

function scalesOf(options: LineChartOptions): Scales {
  const { lines, bounds = [], room = 0.12 } = options;
  const xs = lines.flatMap((line) => line.points.map(([x]) => x));
  const ys = lines.flatMap(({ points: all, band = [] }) => [
    ...all.flatMap(([, y]) => (y === undefined ? [] : [y])),
    ...band.flatMap(([, low, high]) => [low, high]),
  ]);
  const values = [0, ...ys, ...bounds.map(({ y }) => y)];
  const lowest = Math.min(...values);
  const highest = Math.max(...values);
  const margin = (highest - lowest) * 0.08 || 1;
  // Zero is an end of the range unless values lie beyond it, so that small changes look small.
  const [from, to] = options.range ?? [lowest < 0 ? lowest - margin : 0, highest + margin];
  const [left, right] = options.domain ?? [Math.min(...xs, Infinity), Math.max(...xs, -Infinity)];
  const width = right > left ? right - left : 1;
  const share = 1 - room;
  return {
    x: (value) => rounded(((value - left) / width) * 100 * share),
    y: (value) => rounded(100 - ((value - from) / (to - from)) * 100),
    from,
    to,
  };
}

/** Distance between the round numbers of the grid, about four between the ends. */
function gridStep(from: number, to: number): number {
  const rough = (to - from) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
}

function grid({ y, from, to }: Scales, options: LineChartOptions): HtmlValue {
  const step = gridStep(from, to);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const { bounds = [], formatGrid = (value: number) => decimal(value, digits) } = options;
  const first = Math.ceil(from / step);
  const count = Math.floor(to / step) - first + 1;
  return Array.from({ length: count }, (_, index) => {
    const value = (first + index) * step;
    const at = y(value);
    const kind = value === 0 ? 'axis' : 'grid';
    // A number that overlaps the name of a bound could not be read.
    const isFree = bounds.every((bound) => Math.abs(y(bound.y) - at) > 7) && at > 4;
    const word = isFree && html`<text x="0" y="${at}%" dy="-3">${formatGrid(value)}</text>`;
    return html`<line class="${kind}" x2="100%" y1="${at}%" y2="${at}%"></line>${word}`;
  });
}

/** Tints the area beyond a bound that is good or bad; a limit has no tint. */
function zone({ y: value, kind }: ChartBound, { y }: Scales): HtmlValue {
  const at = y(value);
  if (kind === 'limit') return undefined;
  if (kind === 'up') return html`<rect class="zone-up" width="100%" height="${at}%"></rect>`;
  const height = rounded(100 - at);
  return html`<rect class="zone-down" y="${at}%" width="100%" height="${height}%"></rect>`;
}

function boundLine({ y: value, label, kind }: ChartBound, { y }: Scales): Html {
  const at = y(value);
  const words = kind === 'up' ? 'up' : 'down';
  return html`<line class="bound ${kind}" x2="100%" y1="${at}%" y2="${at}%"></line>
<text class="${words}" x="0" y="${at}%" dy="${kind === 'down' ? 14 : -5}">${label}</text>`;
}

function paths({ points: all, area = false, band }: ChartLine, at: number, scales: Scales): Html {
  const { x, y } = scales;
  const place = (px: number, py: number): string => `${rounded(x(px) * 10)} ${y(py)}`;
  let d = '';
  let isBroken = true;
  for (const [px, py] of all) {
    if (py !== undefined) d += `${isBroken ? 'M' : 'L'}${place(px, py)}`;
    isBroken = py === undefined;
  }
  const first = all.find(([, py]) => py !== undefined);
  const last = all.findLast(([, py]) => py !== undefined);
  const ground = y(Math.max(scales.from, Math.min(0, scales.to)));
  const isFilled = area && first !== undefined && last !== undefined && !/.M/.test(d);
  const fill = isFilled
    ? `${d}L${rounded(x(last[0]) * 10)} ${ground}L${rounded(x(first[0]) * 10)} ${ground}Z`
    : undefined;
  const upper = (band ?? []).map(([px, , high]) => place(px, high));
  const lower = (band ?? []).map(([px, low]) => place(px, low)).reverse();
  const around = upper.length > 0 ? `M${[...upper, ...lower].join('L')}Z` : undefined;
  return html`${around !== undefined && html`<path class="band" d="${around}"></path>`}${
    fill !== undefined && html`<path class="band" d="${fill}"></path>`
  }<path class="${dashes[at]}" d="${d}"></path>`;
}

/** The newest value at the end of its line; with several lines, their names. */
function lastPoint(
  { name, points: all }: ChartLine,
  at: number,
  count: number,
  { x, y, format }: Scales & { readonly format: (value: number) => string },
): HtmlValue {
  const last = all.findLast(([, value]) => value !== undefined);
  if (last === undefined) return undefined;
  const px = x(last[0]);
  const py = y(last[1] as number);
  const words = count === 1 ? format(last[1] as number) : name;
  const dot = at === 0 && html`<circle class="now" cx="${px}%" cy="${py}%" r="4"></circle>`;
  const kind = classes(undefined, { strong: at === 0, 'roomy-only': count > 1 });
  return html`${dot}<text class="${kind}" x="${px}%" y="${py}%"
 dx="9" dy="4">${words}</text>`;
}

function ticks(items: readonly ChartTick[], { x }: Scales): HtmlValue {
  if (items.length === 0) return undefined;
  const words = items.map(({ x: at, label }, index) => {
    const place = x(at);
    const isLast = index === items.length - 1 && index > 0;
    const isBetween = index > 0 && !isLast;
    const kind = classes(undefined, { end: isLast, middle: isBetween, 'roomy-only': isBetween });
    return html`<text class="${kind}" x="${place}%" y="14">${label}</text>`;
  });
  return html`<svg class="x-axis" aria-hidden="true">${words}</svg>`;
}

interface Formats {
  readonly format: (y: number) => string;
  readonly formatX: (x: number) => string;
}

/** Points that the arrow keys read out: place in percent, and words. */
function points(lines: readonly ChartLine[], { x }: Scales, formats: Formats): string {
  const rows = valuesByX(lines).map(([at, values]) => {
    const words = values.map((value, index) => {
      const number = value === undefined ? '–' : formats.format(value);
      return lines.length === 1 ? number : `${lines[index]?.name} ${number}`;
    });
    return [x(at), `${formats.formatX(at)}: ${words.join(', ')}`];
  });
  return JSON.stringify(rows);
}

function valuesByX(lines: readonly ChartLine[]): [x: number, values: (number | undefined)[]][] {
  const byX = new Map<number, (number | undefined)[]>();
  for (const [index, line] of lines.entries()) {
    for (const [x, y] of line.points) {
      const values = byX.get(x) ?? new Array<number | undefined>(lines.length).fill(undefined);
      values[index] = y;
      byX.set(x, values);
    }
  }
  return [...byX].sort(([a], [b]) => a - b);
}

function asTable(lines: readonly ChartLine[], options: LineChartOptions & Formats): Html {
  const { format, formatX, nameX = 'At' } = options;
  const rows = sample(valuesByX(lines), rowsMax).map(([x, values]) => {
    const numbers = values.map(
      (value) => html`<td class="num">${value === undefined ? '–' : format(value)}</td>`,
    );
    return html`<tr><th scope="row" class="num">${formatX(x)}</th>${numbers}</tr>`;
  });
  const heads = lines.map(({ name }) => html`<th scope="col" class="num">${name}</th>`);
  return html`<details class="small quiet as-table"><summary>Show as a table</summary>
<div class="scroll"><table class="table dense"><thead><tr>
<th scope="col" class="num">${nameX}</th>${heads}</tr></thead><tbody>${rows}</tbody></table></div>
</details>`;
}

export interface SparklineOptions {
  /** Values from the oldest to the newest. */
  readonly values: readonly number[];
  /** Description of the picture in one sentence, for screen readers. */
  readonly label: string;
  /** Upper end of the range, best the limit, so small changes look small. @default the maximum */
  readonly max?: number | undefined;
  /** Lower end of the range. @default 0 */
  readonly min?: number | undefined;
  /** @default 'plain' */
  readonly tone?: 'plain' | 'warn' | undefined;
}

/** A small line without words, beside a figure or in a row. */
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

/** Names of lines with their dashes, for charts without room at the ends of the lines. */
export function legend(names: readonly string[]): Html {
  const dashes = ['key', 'key two', 'key three'];
  const items = names.map(
    (name, at) => html`<span><i class="${dashes[at] ?? 'key'}"></i>${name}</span>`,
  );
  return html`<p class="legend">${items}</p>`;
}
