import type { Pipeline } from '../ingest.ts';
import { byHand, pageSize, type Trade } from './by-hand.ts';

/** The parts of ccxt that are used: it need not be installed. */
interface Ccxt {
  readonly coinbaseexchange: new (
    options: object,
  ) => {
    fetchTrades(
      symbol: string,
      since: undefined,
      limit: number,
      parameters: object,
    ): Promise<readonly CcxtTrade[]>;
  };
}

interface CcxtTrade {
  readonly id: string;
  readonly side: string;
  readonly amount: number;
  readonly price: number;
  readonly info: { readonly time: string };
}

const attemptsMax = 10;

/** One exchange object of ccxt, which keeps the rate itself and never retries. */
export async function withCcxt(): Promise<Pipeline> {
  const name = 'ccxt';
  const { default: ccxt } = (await import(name)) as { readonly default: Ccxt };
  return byHand(import.meta.filename, (url, ratePerSecond) => {
    const exchange = new ccxt.coinbaseexchange({
      urls: { api: { public: url } },
      // The simulated exchange has no list of currencies.
      has: { fetchCurrencies: false },
      enableRateLimit: true,
      rateLimit: 1_000 / ratePerSecond,
    });
    return async function page(after, signal, attempt = 1): Promise<readonly Trade[]> {
      try {
        const parameters = { after };
        const trades = await exchange.fetchTrades('BTC/USD', undefined, pageSize, parameters);
        // Newest first, as the exchange has them.
        return trades.toReversed().map(({ id, side, amount, price, info }) => {
          const { time } = info;
          return { trade_id: Number(id), side, size: `${amount}`, price: `${price}`, time };
        });
      } catch (error) {
        if (attempt === attemptsMax || signal.aborted) throw error;
        return page(after, signal, attempt + 1);
      }
    };
  });
}

/** True if ccxt is installed. */
export function hasCcxt(): boolean {
  try {
    import.meta.resolve('ccxt');
    return true;
  } catch {
    return false;
  }
}
