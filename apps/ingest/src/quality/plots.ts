import { type Html, html } from 'spillway-http';

/** One bar: where it stands, how long it is, and how it reads. */
export interface Bar {
  readonly label: string;
  /** From 0 up. */
  readonly value: number;
  /** The value in words, as it is shown. */
  readonly text: string;
  /** How it is coloured; the colours are those of the page. */
  readonly tone: 'plain' | 'good' | 'attention' | 'warning' | 'critical';
}

export interface PlotOptions {
  /** Unique on the page, for the title to be found by. */
  readonly id: string;
  readonly title: string;
  /** What somebody who cannot see the plot should know of it. */
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
