import { ingestError } from '../errors.ts';
import type { ScannedTrades, TradeScanner } from './trade-scanner.ts';

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
