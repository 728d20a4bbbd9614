import { isDeepStrictEqual } from 'node:util';
import type { HarvestBatch, HarvestCheckpoint, HarvestGap } from './sink.ts';
import type { HarvestSlot } from './window.ts';

/** The checkpoint once these pages are committed. */
export function nextCheckpoint<Row, Position>(
  before: HarvestCheckpoint<Position>,
  slots: readonly HarvestSlot<Row, Position>[],
  fence: number,
): HarvestCheckpoint<Position> {
  const filled = new Set(slots.map((slot) => slot.gap));
  const gaps = before.gaps.filter((gap) => !filled.has(gap)).concat(slots.flatMap(gapsOf));
  let { position, isEnd, rows } = before;
  for (const { gap, page, answer } of slots) {
    rows += answer?.rows.length ?? 0;
    if (gap !== undefined) continue;
    position = page.to ?? answer?.next ?? page.from;
    isEnd = page.to === undefined && answer?.next === undefined;
  }
  return { ...before, position, isEnd, gaps, commits: before.commits + 1, rows, fence };
}

/** Whether there is anything to commit: a source at its end may be asked again and again. */
export function hasMoved<Position>(
  before: HarvestCheckpoint<Position>,
  next: HarvestCheckpoint<Position>,
): boolean {
  const { commits, fence } = before;
  return !isDeepStrictEqual(before, { ...next, commits, fence });
}

/** What these pages leave open. */
function gapsOf<Row, Position>(slot: HarvestSlot<Row, Position>): HarvestGap<Position>[] {
  const { page, answer, reason } = slot;
  if (answer !== undefined) {
    return (answer.missing ?? []).map((part) => ({ ...part, reason: 'not there' }));
  }
  // Only a page whose end is known can be passed over.
  return [{ from: page.from, to: page.to as Position, reason }];
}

/** The rows of these pages, as the sink gets them. */
export function harvestBatch<Row, Position>(
  before: HarvestCheckpoint<Position>,
  slots: readonly HarvestSlot<Row, Position>[],
  to: Position,
): HarvestBatch<Row, Position> {
  const gap = slots[0]?.gap;
  const pages = slots.flatMap(({ page, answer }) =>
    answer === undefined || answer.rows.length === 0
      ? []
      : [{ from: page.from, rows: answer.rows }],
  );
  const range = gap ?? { from: before.position, to };
  return { source: before.source, from: range.from, to: range.to, isGap: gap !== undefined, pages };
}
