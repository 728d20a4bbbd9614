export { didYouMean, nearest, StopSignal, type StopSignalOptions } from 'spillway/internal';
export {
  type OpenBackup,
  type RestoreBackupOptions,
  restoreBackup,
  writeBackup,
} from './backup.ts';
export { cell, print, type TableStyle, table } from './print.ts';
export {
  type ConfigCommandOptions,
  configCommand,
  examplesOf,
  exitCodes,
  makeProgram,
  type ProgramOptions,
  runMain,
  runProgram,
  UsageError,
} from './program.ts';
export {
  demandListenable,
  type ListenAddress,
  listenFault,
  makeDatabaseFolder,
  makeFolder,
  ServiceStop,
} from './serve.ts';
export {
  choice,
  flag,
  flagOf,
  type NumberRule,
  number,
  type SettingRule,
  type SettingRules,
  SettingsError,
  type SettingsOf,
  SettingsReader,
  type SettingsReaderOptions,
  type SettingsReading,
  type SettingsSources,
  settingsOf,
  type TextRule,
  text,
  withSettings,
  words,
} from './settings.ts';
