import { Command } from 'commander';
import { configCommand, exitCodes, makeProgram, runProgram as run } from 'spillway-cli';
import { settingsReader } from '../settings.ts';
import { examplesOf, settingsOf, withSettings } from './command-line.ts';
import { demoWorkersCommand } from './demo-workers.ts';
import { netCommands } from './net-commands.ts';
import { operationCommand, operationCommands } from './operation-commands.ts';
import { exportCommand, importCommand } from './transfer-commands.ts';

const examples = `
Examples:
  $ fleet serve             a server for this machine, with all it keeps in ./data/fleet
  $ fleet seed              a user and two runs, so that a worker has something to do
  $ fleet user add alice    an account; its password is asked for
  $ fleet run list          what is being played

Each setting can be a flag, a variable (FLEET_PORT) or a key of a file (port in <data>/fleet.json);
the first of these counts. "fleet config" shows what is set and where it came from.
Commands ask the running server; if there is none, they work on the database themselves.
It exits with 0 if all went well, 1 if something failed, 2 if the command was wrong.
`;

/** All commands. */
export function fleetProgram(): Command {
  return makeProgram({
    name: 'fleet',
    about: 'The work server of an engine-testing fleet.',
    help: examples,
    commands: [
      serveCommand(),
      operationCommands('user', 'who may send workers, submit and approve runs'),
      operationCommands('run', 'what is tested, against what, and how'),
      operationCommands('worker', 'workers that get no tasks'),
      netCommands(),
      operationCommands('book', 'openings that runs begin with'),
      operationCommand('contributors'),
      operationCommand('seed'),
      demoWorkersCommand(),
      exportCommand(),
      importCommand(),
      configCommand(settingsReader, { examples: ['config', 'config --port 8000 --json'] }),
    ],
  });
}

/** Runs the command that the words make; gives the exit code. */
export function runProgram(words: readonly string[]): Promise<number> {
  return run(fleetProgram(), words, { INPUT_INVALID: exitCodes.usage });
}

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
