export type {
  Connector,
  ConnectorOptions,
  Cursor,
  LineSql,
  TradePosition,
  TradeRange,
} from './connectors/connector.ts';
export { type IngestErrorCode, type IngestErrorOptions, ingestError } from './errors.ts';
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
