import { checkInteger } from 'spillway';

/** What the ledger keeps about one raw file. */
export interface RawFile {
  /** Its path in the folder. */
  readonly file: string;
  /** The range of ids that was asked for, from `from` to before `to`. */
  readonly from: number;
  readonly to: number;
  /** How many lines it has, at least 1. */
  readonly trades: number;
  readonly firstId: number;
  readonly lastId: number;
  /** Microseconds since 1970 in UTC; of the earliest and the latest trade. */
  readonly firstUs: number;
  readonly lastUs: number;
  /** Compressed, as it lies there. */
  readonly bytes: number;
  /** Of the compressed bytes, in hex. */
  readonly sha256: string;
}

/** One line of the ledger: a raw file, and the commit that it came with. */
export interface RawEntry extends RawFile {
  readonly exchange: string;
  readonly product: string;
  /** Grows with each full refresh of the product; an integer from 1. */
  readonly generation: number;
  /** Grows with each commit of the product's generation; an integer from 1. */
  readonly commit: number;
}

/** What names a raw file: nothing of the run that writes it, so that a retry meets its own file. */
export interface RawRange {
  readonly exchange: string;
  readonly product: string;
  readonly generation: number;
  readonly from: number;
  readonly to: number;
  readonly firstUs: number;
}

/** The directory of one day of one product, below `raw` or below the table. */
export function dayFolder(exchange: string, product: string, date: string): string {
  const [first, second] = [encodeURIComponent(exchange), encodeURIComponent(product)];
  return `exchange=${first}/product=${second}/date=${date}`;
}

/** The day in UTC, as `2026-01-28`. */
export function dayOf(us: number): string {
  return new Date(us / 1000).toISOString().slice(0, 10);
}

/** `raw/exchange=…/product=…/date=…/<from>-<to>.jsonl.zst`, where `to` is the last id asked for. */
export function rawFileName(range: RawRange): string {
  const { exchange, product, generation, from, to, firstUs } = range;
  checkInteger('generation', generation, 1);
  const refreshed = generation === 1 ? '' : `.g${generation}`;
  const name = `${from}-${to - 1}${refreshed}.jsonl.zst`;
  return `raw/${dayFolder(exchange, product, dayOf(firstUs))}/${name}`;
}
