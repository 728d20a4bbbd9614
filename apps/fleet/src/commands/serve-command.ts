import { Command } from 'commander';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';

/** `fleet serve`: the server itself. */
export function serveCommand(): Command {
  const command = new Command('serve')
    .description('start the server; the first start makes the database and the first account')
    .addHelpText('after', examplesOf('serve', 'serve --data /srv/fleet --host 0.0.0.0 --port 8080'))
    .action(async (_options: object, self: Command) => {
      const settings = settingsOf(self);
      const { serve } = await import('./serve.ts');
      process.exitCode = await serve(settings);
      // Signals keep a process alive, and all that mattered has stopped.
      process.exit();
    });
  return withSettings(command, 'all');
}
