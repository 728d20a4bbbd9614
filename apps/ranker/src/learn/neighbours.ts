/** So many rated articles have a say in an article's score. */
export const neighboursUsed = 8;
/** So many are known of each rated article: those of its own fold are left out when it learns. */
export const neighboursKept = 24;
/** What stands in a list that is not full. */
export const noRow = 0xffff_ffff;

/** A neighbour nearer by this much has a say 2.7 times as strong. */
const temperature = 0.1;
/** Neighbours at this cosine, where unrelated articles begin, count as much as knowing nothing. */
const similarityUnknown = 0.35;

/** Keeps the rows with the highest similarities, highest first. */
export class NearestRows {
  readonly rows: Uint32Array;
  readonly similarities: Float32Array;
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
    this.rows = new Uint32Array(size);
    this.similarities = new Float32Array(size);
  }

  /** Finds them among all rows but `except`; lists that are not full end with `noRow`. */
  find(similarities: Float32Array, except: number = noRow): this {
    this.rows.fill(noRow);
    this.similarities.fill(-2);
    let least = -2;
    for (let row = 0; row < similarities.length; row += 1) {
      const similarity = similarities[row] as number;
      if (similarity <= least || row === except) continue;
      insertNeighbour(this.rows, this.similarities, { row, similarity }, 0, this.#size);
      least = this.similarities[this.#size - 1] as number;
    }
    return this;
  }
}

/** Puts a row where it belongs in a sorted list that begins at `from`; the last one drops out. */
export function insertNeighbour(
  rows: Uint32Array,
  similarities: Float32Array,
  { row, similarity }: { readonly row: number; readonly similarity: number },
  from: number,
  size: number,
): void {
  let at = from + size - 1;
  if (similarity <= (similarities[at] as number)) return;
  for (; at > from && (similarities[at - 1] as number) < similarity; at -= 1) {
    rows[at] = rows[at - 1] as number;
    similarities[at] = similarities[at - 1] as number;
  }
  rows[at] = row;
  similarities[at] = similarity;
}

/** The say of a neighbour at this cosine; one at `similarityUnknown` has 1. */
export function neighbourWeight(similarity: number): number {
  return Math.exp((similarity - similarityUnknown) / temperature);
}
