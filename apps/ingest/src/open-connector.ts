import { binance } from './connectors/binance.ts';
import { coinbase } from './connectors/coinbase.ts';
import type { Connector, ConnectorOptions } from './connectors/connector.ts';
import { kraken } from './connectors/kraken.ts';
import type { ExchangeName, Settings } from './setting-rules.ts';
import { simulatedPort } from './simulated-port.ts';

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
