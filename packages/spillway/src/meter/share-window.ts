/**
 * Counts of the calls of the last `windowMs`, and of the marked ones among them. Plain data of
 * fixed size: a ring of ten slots, of which the oldest is emptied as a whole.
 */
export interface ShareWindow {
  slot: number;
  readonly calls: number[];
  readonly marked: number[];
}

const slots = 10;

export function emptyWindow(): ShareWindow {
  return { slot: 0, calls: new Array(slots).fill(0), marked: new Array(slots).fill(0) };
}

/** Adds to the counts of this moment, forgetting what has become too old. */
export function addToWindow(
  window: ShareWindow,
  windowMs: number,
  now: number,
  added: { readonly calls: number; readonly marked: number },
): void {
  slide(window, windowMs, now);
  const at = window.slot % slots;
  window.calls[at] = (window.calls[at] ?? 0) + added.calls;
  window.marked[at] = (window.marked[at] ?? 0) + added.marked;
}

/** The counts of the last `windowMs`, give or take a tenth. */
export function windowTotals(
  window: ShareWindow,
  windowMs: number,
  now: number,
): { calls: number; marked: number } {
  slide(window, windowMs, now);
  return { calls: sumOf(window.calls), marked: sumOf(window.marked) };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function slide(window: ShareWindow, windowMs: number, now: number): void {
  const slot = Math.floor((now / windowMs) * slots);
  const passed = Math.min(slots, slot - window.slot);
  for (let i = 0; i < passed; i += 1) {
    window.calls[(slot - i) % slots] = 0;
    window.marked[(slot - i) % slots] = 0;
  }
  window.slot = Math.max(window.slot, slot);
}
