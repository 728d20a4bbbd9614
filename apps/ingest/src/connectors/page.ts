import { wellFormed } from './answer.ts';

/** The trades or records of an answer in ascending order of id, each id once. */
export interface TradePage {
  /** Safe integers. */
  readonly ids: Float64Array;
  /** Microseconds since 1970 in UTC, one for each id. */
  readonly timesUs: Float64Array;
  /** One line of JSON for each id, with line ends. */
  readonly lines: Uint8Array;
}

/** One trade or record of an answer. */
export interface Item {
  readonly id: number;
  /** Microseconds since 1970 in UTC. */
  readonly us: number | bigint;
  /** An object or list to write as a line of JSON, or that line without its end. */
  readonly line: unknown;
}

/** Makes a page of items in their order. The loop takes a third of the time of `from` (2026-11). */
export function pageOf(items: readonly Item[]): TradePage {
  const ids = new Float64Array(items.length);
  const timesUs = new Float64Array(items.length);
  for (let at = 0; at < items.length; at += 1) {
    const { id, us } = items[at] as Item;
    ids[at] = id;
    timesUs[at] = Number(us);
  }
  return { ids, timesUs, lines: Buffer.from(linesOf(items.map(({ line }) => line))) };
}

function linesOf(values: readonly unknown[]): string {
  if (values.every((value) => typeof value === 'string')) return ended(values);
  const [open, shut] = Array.isArray(values[0]) ? ['[', ']'] : ['{', '}'];
  // Written at once and cut at the borders, which takes half the time. If a value contains such a
  // border, there are more parts than values.
  const parts = textOf(values).split(`${shut},${open}`);
  if (parts.length !== values.length) return ended(values.map(textOf));
  return `${parts.join(`${shut}\n${open}`).slice(1, -1)}\n`;
}

function textOf(value: unknown): string {
  return wellFormed(JSON.stringify(value));
}

function ended(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** Returns the items of a page. */
export function itemsOf({ ids, timesUs, lines }: TradePage): readonly (Item & { line: string })[] {
  const texts = Buffer.from(lines).toString().split('\n');
  return Array.from(ids, (id, at) => ({ id, us: Number(timesUs[at]), line: String(texts[at]) }));
}

/** Returns the highest id; undefined if there are no items. */
export function newestOf(items: readonly Item[]): number | undefined {
  return items.reduce<number | undefined>((most, { id }) => Math.max(most ?? id, id), undefined);
}

/** Ids from `from` up to, but not including, `to`. */
export interface IdRange {
  readonly from: number;
  readonly to: number;
}

/** Returns the items of a range by id, without those in `seen`, and each id once. */
export function wantedOf(
  items: readonly Item[],
  { from, to }: IdRange,
  seen: readonly number[] = [],
): readonly Item[] {
  const known = new Set(seen);
  const wanted = items.filter(({ id }) => id >= from && id < to && !known.has(id));
  wanted.sort((a, b) => a.id - b.id);
  return wanted.filter(({ id }, place) => id !== wanted[place - 1]?.id);
}
