import { ingestError } from '../errors.ts';
import { fieldChanged, type ScannedTrades, type TradeScanner } from './trade-scanner.ts';

const decoder = new TextDecoder('utf-8', { fatal: true });

/** An answer as JSON; one that is none was cut short or comes from something in between. */
export function parseAnswer(exchange: string, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch (cause) {
    const message = `${exchange}: an answer of ${bytes.length} bytes that is not JSON`;
    throw ingestError('EXCHANGE_FAILED', message, { cause });
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
