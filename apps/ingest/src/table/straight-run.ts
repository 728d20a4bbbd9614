import { dayOf, type RawEntry } from '../files/raw-file.ts';
import type { TableFile } from './manifest.ts';

/** The entries that have trades of a day. */
export interface DayEntries {
  readonly date: string;
  readonly entries: readonly RawEntry[];
}

export const dayUs = 86_400_000_000;
/** A file is not larger than those that are joined. */
export const joinedRows = 4_000_000;
/** How often each line is read, at most: once for every day that its file is of. */
const readsMax = 2;

/**
 * Entries by ascending id that can go into the table as they are, in runs that make files of a fair
 * size; undefined where the table has ids between theirs, they overlap, or have few trades a day.
 */
export function straightRuns(
  entries: readonly RawEntry[],
  files: readonly TableFile[],
): readonly (readonly RawEntry[])[] | undefined {
  const firstId = entries[0]?.firstId ?? 0;
  const lastId = entries.at(-1)?.lastId ?? 0;
  const isAlone = files.every((file) => file.lastId < firstId || file.firstId > lastId);
  const isAscending = entries.every((one, at) => one.firstId > (entries[at - 1]?.lastId ?? -1));
  const read = entries.reduce((sum, one) => sum + one.trades * daysIn(one), 0);
  if (!isAlone || !isAscending || read > readsMax * tradesIn(entries)) return undefined;
  const runs: RawEntry[][] = [];
  let trades = Infinity;
  for (const entry of entries) {
    trades += entry.trades;
    if (trades > joinedRows) {
      runs.push([]);
      trades = entry.trades;
    }
    runs.at(-1)?.push(entry);
  }
  return runs;
}

/** By day. */
export function daysOf(run: readonly RawEntry[]): readonly DayEntries[] {
  const days = new Map<string, RawEntry[]>();
  for (const entry of run) {
    for (let at = 0; at < daysIn(entry); at += 1) {
      const date = dayOf(entry.firstUs + at * dayUs);
      days.set(date, [...(days.get(date) ?? []), entry]);
    }
  }
  return [...days]
    .map(([date, entries]) => ({ date, entries }))
    .sort((a, b) => (a.date < b.date ? -1 : 1));
}

export function tradesIn(entries: readonly RawEntry[]): number {
  return entries.reduce((sum, { trades }) => sum + trades, 0);
}

function daysIn({ firstUs, lastUs }: RawEntry): number {
  return Math.floor(lastUs / dayUs) - Math.floor(firstUs / dayUs) + 1;
}
