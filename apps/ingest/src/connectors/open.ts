import { type ExchangeName, type Settings, simulatedPort } from '../settings.ts';
import type { DeclaredOptions } from './api.ts';
import { binance } from './binance.ts';
import { coinbase } from './coinbase.ts';
import type { Connector } from './connector.ts';
import type { Declaration } from './declaration.ts';
import { declared } from './declared.ts';
import { kraken } from './kraken.ts';

/** The simulated exchange: Coinbase's API under another name, so that trades cannot be confused. */
const simulated: Declaration = {
  ...coinbase,
  name: 'simulated',
  address: `http://127.0.0.1:${simulatedPort}/products/{product}/trades`,
};

const exchanges: Readonly<Record<ExchangeName, Declaration>> = {
  binance,
  coinbase,
  kraken,
  simulated,
};

type ConnectorSettings = Pick<Settings, 'exchange' | 'baseUrl' | 'source'> & Partial<Settings>;

/** Opens the connector of the exchange or declared source in the settings. */
export async function openConnector(
  { exchange, baseUrl, source, limit, feed, ratePerSecond, firstAnswerSeconds }: ConnectorSettings,
  options: Omit<DeclaredOptions, 'baseUrl'>,
): Promise<Connector> {
  const feedUrl = feed?.includes(':') ? feed : undefined;
  const firstMsMax = firstAnswerSeconds && firstAnswerSeconds * 1_000;
  const places = { ...options, baseUrl, feedUrl, ratePerSecond, firstMsMax };
  if (source === undefined) {
    const remedy = exchange === 'simulated' ? 'start it with "npx ingest exchange"' : undefined;
    return declared(inPagesOf(exchanges[exchange], limit), { ...places, remedy });
  }
  const { loadDeclaration } = await import('./declaration.ts');
  const remedy = `see "address" and "headers" in ${source}, or --base-url`;
  return declared(inPagesOf(await loadDeclaration(source), limit), { ...places, remedy });
}

/** Limits the page size of a source; only pages by ids can have any size. */
function inPagesOf(source: Declaration, limit = Infinity): Declaration {
  const { pages } = source;
  if (pages.by !== 'ids') return source;
  return { ...source, pages: { ...pages, size: Math.min(limit, pages.size) } };
}
