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
export {
  Exchange,
  type ExchangeOptions,
  type ExchangeStats,
  startExchange,
} from './exchange/exchange.ts';
export type { ExchangeRate, Overrun } from './exchange/rate-meter.ts';
export {
  SimulatedProduct,
  type SimulatedProductOptions,
  type SimulatedTrade,
} from './exchange/simulated-product.ts';
export type { ExchangeLatency, ExchangeTrouble, Trouble } from './exchange/trouble.ts';
export type { TradePage } from './trade-page.ts';
