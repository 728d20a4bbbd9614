import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { escaped } from './reference.ts';

/** One box of a row; an arrow leads to the next one. */
interface Step {
  readonly label: string;
  /** Smaller words below the label. */
  readonly note: string | undefined;
  /** True for the part that the page is about. */
  readonly isMain: boolean;
  /** Words below the box, at the end of an arrow: the refusal. */
  readonly refusal: string | undefined;
  /** A row of squares in the box: how many are filled, and of how many. */
  readonly cells: readonly [filled: number, count: number] | undefined;
  /** Words on the arrow to the next box; undefined without an arrow. */
  readonly arrow: string | undefined;
}

interface Row {
  /** Words above the row. */
  readonly name: string | undefined;
  readonly steps: Step[];
}

/** Rows of boxes, from top to bottom. */
interface Picture {
  /** The picture in one sentence, as its alternative text. */
  readonly label: string;
  readonly rows: Row[];
}

/**
 * The pictures of a text, by name. A line `name: sentence` begins a picture, `(words)` or `--` a
 * row, and every other line is a box: `*` before the main one, `#3/5` squares, `| note`,
 * `! refusal`, and at its end `>` or `-words>` for an arrow.
 */
function picturesIn(text: string): Map<string, Picture> {
  const pictures = new Map<string, Picture>();
  let rows: Row[] = [];
  for (const line of text.split('\n')) {
    const [, picture, label = ''] = /^([\w-]+): (.+)$/.exec(line) ?? [];
    const [, name] = /^ {2}\((.+)\)$/.exec(line) ?? [];
    if (picture !== undefined) {
      rows = [];
      pictures.set(picture, { label, rows });
    } else if (name !== undefined || line === '  --') rows.push({ name, steps: [] });
    else if (line !== '') {
      if (rows.length === 0) rows.push({ name: undefined, steps: [] });
      rows.at(-1)?.steps.push(stepOf(line.trim()));
    }
  }
  return pictures;
}

function stepOf(line: string): Step {
  const shape =
    /^(\*?)(.+?)(?: #(\d+)\/(\d+))?(?: \| (.+?))?(?: ! (.+?))?(?: (?:-(.*?))?(>)| (;))?$/.exec(
      line,
    );
  if (shape === null) throw new Error(`no box: ${line}`);
  const [, star, label = '', filled, count, note, refusal, words = '', arrow] = shape;
  return {
    label,
    note,
    isMain: star === '*',
    refusal,
    cells: filled === undefined ? undefined : [Number(filled), Number(count)],
    arrow: arrow && words,
  };
}

const width = 760;
const margin = 16;
const boxHeight = 52;
const style = `<style>
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .note { font-size: 12px; fill: #57606a }
  .name { font-weight: 600; fill: #57606a; font-size: 12px }
  .refusal { font-size: 12px; fill: #b3261e; font-weight: 600 }
  .ground { fill: #ffffff; stroke: #d0d7de } .box { fill: #f6f8fa; stroke: #b6bec8 }
  .main { fill: #ddf0ff; stroke: #0969da; stroke-width: 2 }
  .arrow { stroke: #57606a; stroke-width: 1.5; fill: none } .head { fill: #57606a }
  .away { stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 4 3; fill: none }
  .away-head { fill: #b3261e }
  .on { fill: #0969da } .off { fill: none; stroke: #8c959f }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .note, .name { fill: #b1bac4 } .refusal { fill: #ff9a91 }
    .ground { fill: #0d1117; stroke: #3d444d } .box { fill: #1c232b; stroke: #57606a }
    .main { fill: #0c2d4d; stroke: #4493f8 } .arrow { stroke: #b1bac4 } .head { fill: #b1bac4 }
    .away { stroke: #ff9a91 } .away-head { fill: #ff9a91 } .on { fill: #4493f8 }
  }
</style>
<defs>${marker('head', 'head')}${marker('away', 'away-head')}</defs>`;

/** The head of an arrow. */
function marker(id: string, kind: string): string {
  const size = 'markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto"';
  return `<marker id="${id}" ${size}><path class="${kind}" d="M0 0L9 4L0 8Z"/></marker>`;
}

/** Draws a picture as SVG, with colours for light and for dark pages. */
function draw({ label, rows }: Picture): string {
  let y = margin;
  const drawn = rows.map(({ name, steps }) => {
    const top = name === undefined ? y : y + 18;
    const words = name === undefined ? '' : text(margin, y + 10, name, 'name', 'start');
    y = top + boxHeight + (steps.some(({ refusal }) => refusal !== undefined) ? 54 : 18);
    return words + row(steps, top);
  });
  const height = y;
  const size = `viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(label)}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${style}
<rect class="ground" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${drawn.join('\n')}
</svg>
`;
}

function row(steps: readonly Step[], y: number): string {
  const widths = steps.map(widthOf);
  const room = width - 2 * margin - widths.reduce((sum, each) => sum + each, 0);
  const words = steps.map(({ arrow = '' }) => arrow.length * 6.4);
  const spare = room - words.reduce((sum, each) => sum + each, 0);
  const gap = Math.min(90, spare / Math.max(1, steps.length - 1));
  if (gap < 20) throw new Error(`no room for ${steps.map((step) => step.label).join(' → ')}`);
  let x = margin;
  const drawn = steps.map((step, at) => {
    const boxWidth = widths[at] ?? 0;
    const middle = y + boxHeight / 2;
    const length = gap + (words[at] ?? 0);
    const isLast = step.arrow === undefined;
    const from = x + boxWidth;
    const on = isLast ? '' : line('arrow', 'head', [from + 3, middle], [from + length - 3, middle]);
    const said = step.arrow ? text(from + length / 2, middle - 7, step.arrow, 'note') : '';
    const box = boxOf(step, x, y, boxWidth);
    x += boxWidth + length;
    return box + on + said;
  });
  return drawn.join('');
}

function widthOf({ label, note = '', cells, refusal = '' }: Step): number {
  const squares = (cells?.[1] ?? 0) * 13;
  const words = Math.max(label.length * 7.7, note.length * 6.5, squares);
  return Math.round(Math.max(64, words + 22, refusal.length * 6.4));
}

function boxOf(step: Step, x: number, y: number, boxWidth: number): string {
  const { label, note, isMain, refusal, cells } = step;
  const middle = x + boxWidth / 2;
  const hasMore = note !== undefined || cells !== undefined;
  const look = isMain ? 'main' : 'box';
  const size = `x="${x}" y="${y}" width="${boxWidth}" height="${boxHeight}"`;
  const shape = `<rect class="${look}" ${size} rx="7"/>`;
  const below = note === undefined ? '' : text(middle, y + 41, note, 'note');
  const bottom = y + boxHeight;
  const away =
    refusal === undefined
      ? ''
      : line('away', 'away', [middle, bottom + 2], [middle, bottom + 22]) +
        text(middle, bottom + 38, refusal, 'refusal');
  const squares = cells === undefined ? '' : cellsOf(cells, middle, y + 32);
  return shape + text(middle, y + (hasMore ? 22 : 31), label) + below + squares + away;
}

function cellsOf([filled, count]: readonly [number, number], middle: number, y: number): string {
  const start = middle - (count * 13 - 3) / 2;
  const squares = Array.from({ length: count }, (_, at) => {
    const kind = at < filled ? 'on' : 'off';
    return `<rect class="${kind}" x="${start + at * 13}" y="${y}" width="10" height="10" rx="2"/>`;
  });
  return squares.join('');
}

type Point = readonly [x: number, y: number];

function line(kind: string, head: string, from: Point, to: Point): string {
  const path = `M${from.join(' ')}L${to.join(' ')}`;
  return `<path class="${kind}" marker-end="url(#${head})" d="${path}"/>`;
}

function text(x: number, y: number, words: string, kind = '', anchor = 'middle'): string {
  const look = kind === '' ? '' : ` class="${kind}"`;
  return `<text${look} x="${x}" y="${y}" text-anchor="${anchor}">${escaped(words)}</text>`;
}

/** All pictures of `pictures.txt`, as SVG by name. */
export function drawAll(): Map<string, string> {
  const list = readFileSync(join(import.meta.dirname, 'pictures.txt'), 'utf8');
  return new Map([...picturesIn(list)].map(([name, picture]) => [name, draw(picture)]));
}

if (import.meta.main) {
  const folder = join(import.meta.dirname, '..', '..', 'docs', 'images', 'parts');
  mkdirSync(folder, { recursive: true });
  for (const [name, svg] of drawAll()) writeFileSync(join(folder, `${name}.svg`), svg);
}
