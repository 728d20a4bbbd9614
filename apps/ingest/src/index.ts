export { type Ingest, type IngestOptions, openIngest } from './open.ts';
export type { Settings } from './settings.ts';
export { readSettings, shownSettings } from './settings.ts';
