/** The known name that is most like a misspelt one, or undefined if none is alike. */
export function nearest(wrong: string, known: Iterable<string>): string | undefined {
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(plain(wrong), plain(name));
    if (distance > Math.max(2, name.length / 3)) continue;
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  return best?.name;
}

/** The end of a complaint about an unknown name: `; did you mean limit?`, or nothing. */
export function didYouMean(wrong: string, known: Iterable<string>): string {
  const name = nearest(wrong, known);
  return name === undefined ? '' : `; did you mean ${name}?`;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, '');
}

/** The number of letters to add, remove or replace to turn one word into the other. */
function editDistance(from: string, to: string): number {
  // Longer ones are never near, and comparing them costs the product of their lengths.
  if (Math.max(from.length, to.length) > 100) return Infinity;
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
