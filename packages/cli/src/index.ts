export { didYouMean, nearest, StopSignal, type StopSignalOptions } from 'spillway/internal';
export { type ConfigCommandOptions, configCommand } from './config-command.ts';
export { makeDatabaseFolder } from './data-folder.ts';
export { type ListenAddress, listenFault } from './listen-fault.ts';
export { cell, print, type TableStyle, table } from './print.ts';
export {
  examplesOf,
  exitCodes,
  makeProgram,
  type ProgramOptions,
  runMain,
  runProgram,
} from './program.ts';
export { ServiceStop } from './service-stop.ts';
export { settingsOf, withSettings } from './setting-flags.ts';
export {
  choice,
  flag,
  type NumberRule,
  number,
  type SettingRule,
  type SettingRules,
  type TextRule,
  text,
  words,
} from './setting-rules.ts';
export {
  flagOf,
  SettingsError,
  SettingsReader,
  type SettingsReaderOptions,
  type SettingsReading,
  type SettingsSources,
} from './settings-reader.ts';
export { UsageError } from './usage-error.ts';
