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
export {
  checkpointRecord,
  type ProductCheckpoint,
  readCheckpoint,
} from './harvesting/checkpoint.ts';
export { Follower, type FollowerOptions, type FollowerStats } from './harvesting/follower.ts';
export { Harvester, type HarvesterOptions, type HarvestRequest } from './harvesting/harvester.ts';
export { type HarvestingErrorCode, harvestingError } from './harvesting/harvesting-error.ts';
export { type OrphansOptions, orphansOf } from './harvesting/orphans.ts';
export type { ProductPlan, Wish } from './harvesting/plan-product.ts';
export {
  type Generations,
  ProductBook,
  type ProductGeneration,
  sourceName,
} from './harvesting/product-book.ts';
export type { ProductOutcome, ProductStatus } from './harvesting/product-outcome.ts';
export { QuotaBucket } from './harvesting/quota-bucket.ts';
export { readSeed, type Seed, writeSeed } from './harvesting/seed-file.ts';
export { type SinkSource, TradeSink, type TradeSinkOptions } from './harvesting/trade-sink.ts';
export {
  type Transformed,
  Transformer,
  type TransformerOptions,
  type TransformRequest,
} from './harvesting/transformer.ts';
export { type Ingest, type IngestOptions, openIngest } from './open-ingest.ts';
export type { Assessment, QualityCheck } from './quality/assessment.ts';
export {
  type DayQuality,
  type Freshness,
  type Health,
  type ProductQuality,
  type Quality,
  quality,
} from './quality/quality.ts';
export { qualityMetrics } from './quality/quality-metrics.ts';
export { qualityPage } from './quality/quality-page.ts';
export {
  type Flaw,
  type IdRange,
  type Issue,
  type ProductLedger,
  type Verification,
  verify,
} from './quality/verify.ts';
export type { ExchangeName, SettingName, Settings } from './setting-rules.ts';
export { readSettings, shownSettings } from './settings.ts';
export { BucketFolder, type BucketFolderOptions } from './storage/bucket-folder.ts';
export type { Folder, FolderFile, HeldFile } from './storage/folder.ts';
export { LocalFolder } from './storage/local-folder.ts';
export type { Manifest, MergedProduct, TableFile } from './storage/manifest.ts';
export type { QueryOptions, QueryResult } from './storage/query.ts';
export {
  dayFolder,
  dayOf,
  type RawEntry,
  type RawFile,
  type RawRange,
  rawFileName,
  writeRawFile,
} from './storage/raw-file.ts';
export { type StorageErrorCode, storageError } from './storage/storage-error.ts';
export { TableView } from './storage/table-view.ts';
export {
  type Merged,
  type TableFence,
  TradeTable,
  type TradeTableOptions,
} from './storage/trade-table.ts';
export type { TradePage } from './trade-page.ts';
