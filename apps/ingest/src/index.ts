export { type Ingest, type IngestOptions, openIngest } from './open-ingest.ts';
export type { Settings } from './setting-rules.ts';
export { readSettings, shownSettings } from './settings.ts';
