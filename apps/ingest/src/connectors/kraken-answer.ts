import { ingestError } from '../errors.ts';
import { parseAnswer } from './read-answer.ts';
import { fieldChanged, type ScannedTrades, TradeScanner } from './trade-scanner.ts';

const name = 'kraken';

const scanner = new TradeScanner(name, [
  { key: 0, kind: 'decimal' },
  { key: 1, kind: 'decimal' },
  { key: 2, kind: 'seconds' },
  { key: 3, kind: 'letter' },
  { key: 6, kind: 'id' },
]);

/** What Kraken answers: the trades, and what to ask with for those after them. */
export interface KrakenTrades {
  readonly found: ScannedTrades;
  /** Nanoseconds since 1970. */
  readonly last: bigint;
}

/** The `result` of an answer; Kraken says in the body, not by the status, what went wrong. */
export function krakenResult(value: unknown): object {
  const { error, result } = Object(value);
  if (!Array.isArray(error)) throw fieldChanged(name, 'error', 'a list', error);
  // What begins with W is a warning.
  const [fault] = error.filter((text) => !/^W/.test(text));
  if (fault !== undefined) throw refusal(String(fault));
  if (typeof result !== 'object' || result === null) {
    throw fieldChanged(name, 'result', 'an object', result);
  }
  return result;
}

function refusal(fault: string): Error {
  const message = `${name}: ${fault}`;
  if (/Rate limit|Too many requests|Throttled/i.test(fault)) {
    return ingestError('EXCHANGE_LIMITED', message);
  }
  if (/^EService|Internal error/.test(fault)) return ingestError('EXCHANGE_FAILED', message);
  if (/Unknown asset pair/.test(fault)) return ingestError('PRODUCT_UNKNOWN', message);
  return ingestError('EXCHANGE_REFUSED', message);
}

export function readKraken(bytes: Buffer): KrakenTrades {
  const start = bytes.indexOf('[[');
  const scanned = start < 0 ? undefined : scanner.scan(bytes, start);
  // What is around the list is small, and is read with the list left out.
  const rest =
    scanned === undefined
      ? bytes
      : Buffer.concat([bytes.subarray(0, start), Buffer.from('[]'), bytes.subarray(scanned.end)]);
  const { last, ...lists } = krakenResult(parseAnswer(name, rest)) as { readonly last?: unknown };
  if (typeof last !== 'string' || !/^\d{1,19}$/.test(last)) {
    throw fieldChanged(name, 'result.last', 'nanoseconds in quotes', last);
  }
  // The list is called by Kraken's own name of the pair, which need not be the one asked for.
  const values: readonly unknown[] = Object.values(lists);
  if (values.length !== 1) {
    throw fieldChanged(name, 'result', 'one list and `last`', Object.keys(lists));
  }
  return { found: scanned ?? scanner.check(values[0]), last: BigInt(last) };
}
