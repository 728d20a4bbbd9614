import { Command } from 'commander';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';

/** `ranker serve`: the server itself. */
export function serveCommand(): Command {
  const command = new Command('serve')
    .description('start the server; the first start makes the database and the first user')
    .addHelpText('after', examplesOf('serve', 'serve --data /srv/ranker --port 8080 --compat true'))
    .action(async (_options: object, self: Command) => {
      const settings = settingsOf(self);
      const { serve } = await import('./serve.ts');
      process.exitCode = await serve(settings);
      // Signal handlers would keep the process alive, though every part has stopped.
      process.exit();
    });
  return withSettings(command);
}
