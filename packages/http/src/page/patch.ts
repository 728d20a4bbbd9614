import { type Content, Html, List, Raw, written } from './html.ts';

/** Path to a hole: parts and items of lists, from the outermost to the innermost. */
export type PatchPath = readonly number[];

/** One item that stays, a run of them `[first, count]`, or the HTML of a new one. */
export type ListStep = number | readonly [number, number] | string;

/**
 * One change of a live page: text, HTML or an attribute (null: none) that is new, the text of a
 * `title` or `textarea`, or what a list consists of now, in terms of what it was.
 */
export type PatchStep =
  | readonly ['t' | 'h' | 'c', PatchPath, string]
  | readonly ['a', PatchPath, string, string | null]
  | readonly ['l', PatchPath, readonly ListStep[]];

/** The HTML of a live page: as it is, with the marks that a patch goes by. */
export function liveText(view: Html): string {
  return written(view, true);
}

/**
 * Steps that turn a page that shows `from` into one that shows `to`, in order; undefined if the two
 * have nothing in common.
 */
export function patch(from: Html, to: Html): PatchStep[] | undefined {
  if (!isSame(from, to)) return undefined;
  const steps: PatchStep[] = [];
  compareHoles(from, to, [], steps);
  return steps;
}

function isSame(from: Html, to: Html): boolean {
  return from.template === to.template && from.key === to.key;
}

function compareHoles(from: Html, to: Html, path: PatchPath, steps: PatchStep[]): void {
  if (from === to) return;
  for (const [index, hole] of to.template.holes.entries()) {
    const before = from.contents[index];
    const after = to.contents[index];
    if (before === after) continue;
    const place = [...path, hole.part];
    if (hole.kind === 'text') compare(before as Content, after as Content, place, steps);
    else if (hole.kind === 'content') steps.push(['c', place, after as string]);
    else steps.push(['a', place, hole.name, (after as string | undefined) ?? null]);
  }
}

function compare(from: Content, to: Content, path: PatchPath, steps: PatchStep[]): void {
  if (typeof to === 'string') {
    if (from !== to) steps.push(['t', path, to]);
  } else if (from instanceof Html && to instanceof Html && isSame(from, to)) {
    compareHoles(from, to, path, steps);
  } else if (from instanceof List && to instanceof List) {
    compareLists(from, to, path, steps);
  } else if (!(from instanceof Raw && to instanceof Raw && from.text === to.text)) {
    steps.push(['h', path, written(to, true)]);
  }
}

/** Items are compared where they were, and only then put where they shall be. */
function compareLists(from: List, to: List, path: PatchPath, steps: PatchStep[]): void {
  const places = keyedPlaces(from);
  const isKeyed = places !== undefined && keyedPlaces(to) !== undefined;
  const order: (number | string)[] = to.items.map((item, index) => {
    const known = isKeyed ? places.get((item as Html).key) : index;
    const before = known === undefined ? undefined : from.items[known];
    if (known === undefined || before === undefined) return written(item, true);
    compare(before, item, [...path, known], steps);
    return known;
  });
  const isInPlace = order.every((step, index) => step === index);
  if (!isInPlace || order.length !== from.items.length) steps.push(['l', path, runs(order)]);
}

/** Index of each key; undefined unless all items have keys, and no two the same. */
function keyedPlaces(list: List): Map<Html['key'], number> | undefined {
  const places = new Map<Html['key'], number>();
  for (const [index, item] of list.items.entries()) {
    if (!(item instanceof Html) || item.key === undefined) return undefined;
    places.set(item.key, index);
  }
  return places.size === list.items.length ? places : undefined;
}

function runs(order: readonly (number | string)[]): ListStep[] {
  const found: ListStep[] = [];
  let first = 0;
  let count = 0;
  const end = () => {
    if (count > 0) found.push(count === 1 ? first : [first, count]);
    count = 0;
  };
  for (const step of order) {
    if (typeof step === 'number' && count > 0 && step === first + count) {
      count += 1;
      continue;
    }
    end();
    if (typeof step === 'string') found.push(step);
    else [first, count] = [step, 1];
  }
  end();
  return found;
}
