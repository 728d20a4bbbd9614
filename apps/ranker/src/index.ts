export { rankerProgram, runProgram } from './commands/program.ts';
export { type OpenRankerOptions, openRanker, type RankerService } from './open-ranker.ts';
export { type Settings, settingsReader } from './settings.ts';
