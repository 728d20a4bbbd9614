import { SettingsReader, type SettingsReading, type SettingsSources } from 'spillway-cli';
import { type Settings, settingRules } from './setting-list.ts';

export type SettingName = keyof Settings;

export const settingsReader: SettingsReader<Settings> = new SettingsReader({
  program: 'ranker',
  rules: settingRules,
  otherVariables: ['RANKER_KEY', 'RANKER_URL'],
});

export function readSettings(sources: SettingsSources<SettingName>): SettingsReading<Settings> {
  return settingsReader.read(sources);
}

/** The settings as they may be shown to anybody. */
export function shownSettings(settings: Settings): Record<SettingName, unknown> {
  return settingsReader.shown(settings);
}
