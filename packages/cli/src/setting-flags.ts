import { type Command, Option } from 'commander';
import {
  flagOf,
  type SettingsReader,
  type SettingsReading,
  type SettingsSources,
} from './settings-reader.ts';

/** Gives a command all settings as flags, and `--config`; help shows all of them or only some. */
export function withSettings<S extends { readonly data: string }>(
  command: Command,
  reader: SettingsReader<S>,
  shown: readonly string[] | 'all' = 'all',
): Command {
  for (const name of reader.names) {
    const { value, about } = reader.rules[name];
    const option = new Option(`${flagOf(name)} ${value}`, about).helpGroup('Settings:');
    command.addOption(shown === 'all' || shown.includes(name) ? option : option.hideHelp());
  }
  const about = `settings as JSON (default <data>/${reader.program}.json)`;
  return command.addOption(new Option('--config <file>', about).helpGroup('Settings:'));
}

/** What is set for a command that was given flags by {@link withSettings}, in this process. */
export function settingsOf<S extends { readonly data: string }>(
  command: Command,
  reader: SettingsReader<S>,
): SettingsReading<S> {
  const flags = command.opts() as SettingsSources<keyof S & string>['flags'];
  return reader.read({ flags, environment: process.env });
}
