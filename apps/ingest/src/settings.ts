import { SettingsReader, type SettingsReading, type SettingsSources } from 'spillway-cli';
import { type SettingName, type Settings, settingRules } from './setting-rules.ts';

export const settingsReader: SettingsReader<Settings> = new SettingsReader({
  program: 'ingest',
  rules: settingRules,
});

export function readSettings(sources: SettingsSources<SettingName>): SettingsReading<Settings> {
  return settingsReader.read(sources);
}

/** The settings as they may be shown to anybody. */
export function shownSettings(settings: Settings): Record<SettingName, unknown> {
  return settingsReader.shown(settings);
}
