import { ingestError } from '../errors.ts';
import { fieldChanged, type ScannedTrades, type TradeScanner } from './trade-scanner.ts';

/** One answer of an exchange: trades in ascending order of id, each id once. */
export interface TradePage {
  /** Safe integers. */
  readonly ids: Float64Array;
  /** Microseconds since 1970 in UTC, one for each id. */
  readonly timesUs: BigInt64Array;
  /** The trades as the exchange wrote them: one line of JSON for each id, each with its end. */
  readonly lines: Uint8Array;
}

const newline = 0x0a;
const carriageReturn = 0x0d;

/** Trades of an answer that are wanted: `from <= id < to`, and not in `seen`. */
export interface WantedIds {
  readonly from: number;
  readonly to: number;
  readonly seen?: readonly number[] | undefined;
}

/** The trades that are wanted, in order of id, each id once: the first that was found. */
export function buildPage(found: ScannedTrades, wanted: WantedIds): TradePage {
  const order = orderById(found, wanted);
  const { starts, ends, bytes } = found;
  let length = order.length;
  for (const at of order) length += (ends[at] as number) - (starts[at] as number);
  const count = order.length;
  // One block for all of a page: three are more work for the collector of garbage.
  const block = Buffer.allocUnsafeSlow(16 * count + length);
  const ids = new Float64Array(block.buffer, 0, count);
  const timesUs = new BigInt64Array(block.buffer, 8 * count, count);
  // Two halves of each time: a bigint for each would cost more than all the rest.
  const halves = new Uint32Array(block.buffer, 8 * count, 2 * count);
  const lines = block.subarray(16 * count);
  const isPlain = !bytes.includes(newline) && !bytes.includes(carriageReturn);
  let end = 0;
  for (let place = 0; place < count; place += 1) {
    const at = order[place] as number;
    const start = end;
    end += bytes.copy(lines, end, starts[at], ends[at]);
    if (!isPlain) oneLine(lines, start, end);
    lines[end] = newline;
    end += 1;
    const timeUs = found.timesUs[at] as number;
    ids[place] = found.ids[at] as number;
    halves[2 * place] = timeUs % 2 ** 32;
    halves[2 * place + 1] = timeUs / 2 ** 32;
  }
  return { ids, timesUs, lines };
}

/** Places in the answer, as a page wants them. */
function orderById({ ids }: ScannedTrades, { from, to, seen = [] }: WantedIds): readonly number[] {
  const order: number[] = [];
  const left = new Set(seen);
  for (let at = 0; at < ids.length; at += 1) {
    const id = ids[at] as number;
    if (id >= from && id < to && !left.has(id)) order.push(at);
  }
  const idAt = (place: number): number => ids[order[place] as number] as number;
  if (order.length > 1 && idAt(0) > idAt(1)) order.reverse();
  for (let place = 1; place < order.length; place += 1) {
    if (idAt(place) > idAt(place - 1)) continue;
    order.sort((a, b) => (ids[a] as number) - (ids[b] as number) || a - b);
    return order.filter((at, i) => i === 0 || ids[at] !== ids[order[i - 1] as number]);
  }
  return order;
}

/** Between values JSON may have new lines as space; within a line it may not. */
function oneLine(lines: Buffer, start: number, end: number): void {
  for (let at = start; at < end; at += 1) {
    if (lines[at] === newline || lines[at] === carriageReturn) lines[at] = 0x20;
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Characters of an answer that an error tells. */
const toldMax = 80;
/** Bytes of it that are searched for secrets: more than any of them has. */
const maskedMax = 2 ** 20;

export interface ParseOptions {
  readonly reviver?: Parameters<typeof JSON.parse>[1];
  /** Masks secrets in what an error tells. @default nothing */
  readonly hide?: (text: string) => string;
}

/** An answer as JSON; one that is none was cut short or comes from something in between. */
export function parseAnswer(
  exchange: string,
  bytes: Uint8Array,
  { reviver, hide = String }: ParseOptions = {},
): unknown {
  try {
    return JSON.parse(decoder.decode(bytes), reviver);
  } catch {
    // Without the cause: its message quotes the answer.
    // Masked before it is cut, as half a secret is not found any more.
    const masked = hide(Buffer.from(bytes.subarray(0, maskedMax)).toString());
    const text = masked.slice(0, 4 * toldMax).replace(/\s+/g, ' ');
    const what = `${exchange}: an answer of ${bytes.length} bytes that is not JSON`;
    throw ingestError('EXCHANGE_FAILED', `${what}: ${text.trim().slice(0, toldMax)}`.trim());
  }
}

/** The trades of an answer that is nothing but a list of them. */
export function readTrades(exchange: string, bytes: Buffer, scanner: TradeScanner): ScannedTrades {
  const found = scanner.scan(bytes);
  return found?.end === bytes.length ? found : scanner.check(parseAnswer(exchange, bytes));
}

/** In the order of their characters, the same everywhere. */
export const byText = (a: string, b: string): number => (a < b ? -1 : 1);

/** The ids in a list of products, sorted; `list` and `key` are as the exchange names them. */
export function productIds(
  exchange: string,
  { list, key, value }: { readonly list: string; readonly key: string; readonly value: unknown },
): readonly string[] {
  if (!Array.isArray(value)) throw fieldChanged(exchange, list, 'a list', value);
  const ids = value.map((product, at): string => {
    const id: unknown = Object(product)[key];
    if (typeof id === 'string') return id;
    throw fieldChanged(exchange, `${list}[${at}].${key}`, 'a text', id);
  });
  return ids.sort(byText);
}
