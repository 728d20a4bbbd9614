import { Command } from 'commander';
import { print, table } from 'spillway-cli';
import { systemUser } from '../world/records.ts';
import { demandFiles, examplesOf, settingsOf, withSettings } from './command-line.ts';

interface NetOptions {
  readonly json?: boolean;
  readonly user?: string;
}

/** `fleet net …`: the networks that workers get here; what opens them is loaded when needed. */
export function netCommands(): Command {
  const net = new Command('net').description('networks that workers get from this server');
  const add = new Command('add')
    .description('copy networks here; each is named by its SHA-256')
    .argument('<file...>')
    .option('--user <name>', 'who made them (default: the system)')
    .addHelpText('after', examplesOf('net add nn-1111cefa1111.nnue nn-37f18f62d772.nnue'))
    .action(async (files: string[], { json, user = systemUser }: NetOptions, self: Command) => {
      await demandFiles(files);
      const { withNets } = await import('./operator.ts');
      const nets = await withNets(settingsOf(self), false, async (known) => {
        const added = [];
        for (const file of files) added.push(await known.add(file, user));
        return added;
      });
      print(nets, json, () => nets.map(({ name }) => `Net ${name} was added.`).join('\n'));
    });
  const list = new Command('list')
    .description('show all networks')
    .addHelpText('after', examplesOf('net list'))
    .action(async ({ json }: NetOptions, self: Command) => {
      const { withNets } = await import('./operator.ts');
      const nets = await withNets(settingsOf(self), true, (known) => known.list());
      const rows = nets.map(({ name, user, downloads }) => ({ name, user, downloads }));
      print(nets, json, () => table(rows, 'No networks yet; see fleet net add.'));
    });
  for (const command of [add, list]) {
    net.addCommand(withSettings(command.option('--json', 'print JSON')));
  }
  return net;
}
