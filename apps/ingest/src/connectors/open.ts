import { type ExchangeName, type Settings, simulatedPort } from '../settings.ts';
import type { DeclaredOptions } from './api.ts';
import { binance } from './binance.ts';
import { coinbase } from './coinbase.ts';
import type { Connector, ConnectorOptions } from './connector.ts';
import { kraken } from './kraken.ts';

const connectors: Readonly<Record<ExchangeName, (options: ConnectorOptions) => Connector>> = {
  binance,
  coinbase,
  kraken,
  simulated,
};

/** Exchanges whose ids have holes of their own. */
export const sparseExchanges: readonly string[] = ['kraken'];

type ConnectorSettings = Pick<Settings, 'exchange' | 'baseUrl' | 'source'> & Partial<Settings>;

/** The way to the exchange or to the declared source that is set. */
export async function openConnector(
  { exchange, baseUrl, source, feed }: ConnectorSettings,
  options: Omit<DeclaredOptions, 'baseUrl'>,
): Promise<Connector> {
  const { environment: _secrets, ...plain } = options;
  const feedUrl = feed?.includes(':') ? feed : undefined;
  if (source === undefined) return connectors[exchange]({ ...plain, baseUrl, feedUrl });
  const { loadDeclaration } = await import('./declaration.ts');
  const { declared } = await import('./declared.ts');
  return declared(await loadDeclaration(source), { ...options, baseUrl });
}

/** Speaks as Coinbase does; by its own name, so that its trades are never taken for real ones. */
function simulated(options: ConnectorOptions): Connector {
  const { baseUrl = `http://127.0.0.1:${simulatedPort}` } = options;
  const exchange = 'simulated';
  const remedy = 'start it with "npx ingest exchange"';
  return { ...coinbase({ ...options, exchange, remedy, baseUrl }), name: exchange };
}
