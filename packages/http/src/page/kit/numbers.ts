/** A value to be shown; undefined is unknown. */
export type Figure = number | undefined;

/** The sign for an unknown value. */
export const unknown = '–';

/** A number with commas between thousands, a true minus and a fixed number of decimals. */
export function decimal(value: Figure, digits = 0): string {
  if (value === undefined || Number.isNaN(value)) return unknown;
  const text = Math.abs(value).toFixed(digits);
  const [whole = '', fraction] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  const isNegative = value < 0 && Number(text) !== 0;
  return `${isNegative ? '−' : ''}${grouped}${fraction === undefined ? '' : `.${fraction}`}`;
}

/** The same with a plus before positive numbers, for differences. */
export function signed(value: Figure, digits = 0): string {
  const text = decimal(value, digits);
  return value !== undefined && Number(value.toFixed(digits)) > 0 ? `+${text}` : text;
}

/** A share from 0 to 1 as a percentage. */
export function percent(share: Figure, digits = 0): string {
  return share === undefined ? unknown : `${decimal(share * 100, digits)} %`;
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** A length of time in its largest unit: `4 s`, `31 min`, `1.8 h`, `2 d`. */
export function duration(ms: Figure): string {
  if (ms === undefined || Number.isNaN(ms)) return unknown;
  if (ms < second) return `${decimal(ms)} ms`;
  if (ms < 10 * second) return `${decimal(ms / second, 1)} s`;
  if (ms < minute) return `${decimal(ms / second)} s`;
  if (ms < hour) return `${decimal(ms / minute)} min`;
  if (ms < 10 * hour) return `${decimal(ms / hour, 1)} h`;
  if (ms < 2 * day) return `${decimal(ms / hour)} h`;
  return `${decimal(ms / day)} d`;
}

/** An age as `4 s ago`. */
export function ago(ms: Figure): string {
  if (ms === undefined) return unknown;
  return ms < second ? 'now' : `${duration(Math.floor(ms / second) * second)} ago`;
}

const units = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

/** A size in its largest unit: `38.2 GB`. */
export function bytes(value: Figure): string {
  if (value === undefined) return unknown;
  let size = value;
  let at = 0;
  while (size >= 1_000 && at < units.length - 1) {
    size /= 1_000;
    at += 1;
  }
  return `${decimal(size, at === 0 || size >= 100 ? 0 : 1)} ${units[at]}`;
}

/** A position between two ends in percent; values beyond an end are placed at it. */
export function position(value: number, from: number, to: number): number {
  const share = (value - from) / (to - from);
  if (Number.isNaN(share)) return 0;
  return rounded(Math.min(1, Math.max(0, share)) * 100);
}

/** A coordinate of a picture, rounded to a tenth. */
export function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
