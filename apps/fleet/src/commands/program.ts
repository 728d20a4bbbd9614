import { Command, CommanderError } from 'commander';
import { SettingsError } from '../settings.ts';
import { bookCommands, netCommands } from './catalog-commands.ts';
import { configCommand } from './config-command.ts';
import { UsageError } from './errors.ts';
import { runCommands } from './run-commands.ts';
import { seedCommand } from './seed-command.ts';
import { serveCommand } from './serve-command.ts';
import { exportCommand, importCommand } from './transfer-commands.ts';
import { userCommands } from './user-commands.ts';

/** What commander throws when it has only shown what was asked for. */
const shownCodes = ['commander.helpDisplayed', 'commander.version'];

const examples = `
Examples:
  $ fleet serve             a server for this machine, with all it keeps in ./data
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
  const program = new Command('fleet')
    .description('The work server of an engine-testing fleet.')
    .addHelpText('after', examples)
    .showHelpAfterError('(add --help to see what there is)')
    .configureHelp({ helpWidth: 100 })
    .exitOverride();
  for (const command of [
    serveCommand(),
    userCommands(),
    runCommands(),
    netCommands(),
    bookCommands(),
    seedCommand(),
    exportCommand(),
    importCommand(),
    configCommand(),
  ]) {
    program.addCommand(command.copyInheritedSettings(program));
    for (const inner of command.commands) inner.copyInheritedSettings(program);
  }
  return program;
}

/** Runs the command that the words make; gives the exit code. */
export async function runProgram(words: readonly string[]): Promise<number> {
  try {
    await fleetProgram().parseAsync(words, { from: 'user' });
    return 0;
  } catch (error) {
    return report(error);
  }
}

/** Tells what went wrong, unless that has been told; wrong use is 2, any other failure 1. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return shownCodes.includes(error.code) ? 0 : 2;
  const { message = String(error), code } = Object(error) as { message?: string; code?: unknown };
  process.stderr.write(`fleet: ${message}\n`);
  const isWrongUse = error instanceof SettingsError || error instanceof UsageError;
  return isWrongUse || code === 'INPUT_INVALID' ? 2 : 1;
}
