import { Command } from 'commander';
import { readSettings, settingNames, shownSettings } from '../settings.ts';
import { examplesOf, print, table, withSettings } from './command-line.ts';

/** `ingest config`: what is set, and where that came from. */
export function configCommand(): Command {
  const command = new Command('config')
    .description('show every setting and where it came from; secrets are hidden')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf('config', 'config --exchange kraken --json'))
    .action((options: { readonly json?: boolean }, self: Command) => {
      const sources = { flags: self.opts(), environment: process.env };
      const { settings, origins } = readSettings(sources);
      const shown = shownSettings(settings);
      const rows = settingNames.map((setting) => {
        return { setting, value: shown[setting], from: origins[setting] };
      });
      print(rows, options.json, () => table(rows, ''));
    });
  return withSettings(command, ['all']);
}
