import { type ExchangeName, type Settings, simulatedPort } from '../settings.ts';
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

/** The way to the exchange that is set. */
export function openConnector(
  { exchange, baseUrl }: Pick<Settings, 'exchange' | 'baseUrl'>,
  options: Omit<ConnectorOptions, 'baseUrl'>,
): Connector {
  return connectors[exchange]({ ...options, baseUrl });
}

/** Speaks as Coinbase does; by its own name, so that its trades are never taken for real ones. */
function simulated(options: ConnectorOptions): Connector {
  const { baseUrl = `http://127.0.0.1:${simulatedPort}` } = options;
  return { ...coinbase({ ...options, baseUrl }), name: 'simulated' };
}
