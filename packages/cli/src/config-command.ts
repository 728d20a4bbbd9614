import { Command } from 'commander';
import { print, type TableStyle, table } from './print.ts';
import { examplesOf } from './program.ts';
import { settingsOf, withSettings } from './setting-flags.ts';
import type { SettingsReader } from './settings-reader.ts';

export interface ConfigCommandOptions {
  /** Commands to show at the end of its help, without the program's name. */
  readonly examples: readonly string[];
  /** How its table is written. */
  readonly style?: TableStyle | undefined;
}

/** `<program> config`: what is set, and where that came from. */
export function configCommand<S extends { readonly data: string }>(
  reader: SettingsReader<S>,
  { examples, style }: ConfigCommandOptions,
): Command {
  const command = new Command('config')
    .description('show every setting and where it came from; secrets are hidden')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf(reader.program, examples))
    .action((options: { readonly json?: boolean }, self: Command) => {
      const { settings, origins } = settingsOf(self, reader);
      const shown = reader.shown(settings);
      const rows = reader.names.map((setting) => {
        return { setting, value: shown[setting], from: origins[setting] };
      });
      print(rows, options.json, () => table(rows, '', style));
    });
  return withSettings(command, reader);
}
