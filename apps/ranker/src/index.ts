export { rankerProgram, runProgram } from './commands/program.ts';
export { type OpenRankerOptions, openRanker, type RankerService } from './open-ranker.ts';
export type { Settings } from './setting-list.ts';
export { readSettings, shownSettings } from './settings.ts';
