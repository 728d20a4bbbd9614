/** One answer: trades or records in ascending order of id, each id once. */
export interface TradePage {
  /** Safe integers. */
  readonly ids: Float64Array;
  /** Microseconds since 1970 in UTC, one for each id. */
  readonly timesUs: BigInt64Array;
  /** One line of JSON for each id, each with its end. */
  readonly lines: Uint8Array;
}

/** One trade or record of an answer. */
export interface Item {
  readonly id: number;
  /** Microseconds since 1970 in UTC. */
  readonly us: number | bigint;
  /** JSON, without an end of line. */
  readonly line: string;
}

/** The items as they are; in a loop, which takes a third of the time of `from` (2026-11). */
export function pageOf(items: readonly Item[]): TradePage {
  const ids = new Float64Array(items.length);
  const timesUs = new BigInt64Array(items.length);
  let lines = '';
  for (let at = 0; at < items.length; at += 1) {
    const { id, us, line } = items[at] as Item;
    ids[at] = id;
    timesUs[at] = BigInt(us);
    lines += `${line}\n`;
  }
  return { ids, timesUs, lines: Buffer.from(lines) };
}

/** The items that the page was made of. */
export function itemsOf({ ids, timesUs, lines }: TradePage): readonly Item[] {
  const texts = Buffer.from(lines).toString().split('\n');
  return Array.from(ids, (id, at) => ({ id, us: Number(timesUs[at]), line: String(texts[at]) }));
}

/** Ids from `from` up to, but not including, `to`. */
export interface IdRange {
  readonly from: number;
  readonly to: number;
}

/** The items of a range but those in `seen`, by id, each id once: the first that was found. */
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
