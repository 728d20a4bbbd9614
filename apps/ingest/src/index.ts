export type { Declaration } from './connectors/declaration.ts';
export { type Ingest, type IngestOptions, openIngest } from './open.ts';
export { readSettings, type Settings } from './settings.ts';
