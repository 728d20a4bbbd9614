export type {
  Connector,
  ConnectorOptions,
  Cursor,
  LineSql,
  TradePosition,
  TradeRange,
} from './connectors/connector.ts';
export { type IngestErrorCode, type IngestErrorOptions, ingestError } from './errors.ts';
export type { TradePage } from './trade-page.ts';
