export { type BinanceOptions, binance } from './connectors/binance.ts';
export { coinbase } from './connectors/coinbase.ts';
export type {
  Connector,
  ConnectorOptions,
  Cursor,
  LineSql,
  TradePosition,
  TradeRange,
} from './connectors/connector.ts';
export { kraken } from './connectors/kraken.ts';
export { type IngestErrorCode, type IngestErrorOptions, ingestError } from './errors.ts';
export type { TradePage } from './trade-page.ts';
