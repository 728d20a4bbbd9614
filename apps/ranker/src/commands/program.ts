import { Command, CommanderError } from 'commander';
import { SettingsError } from '../settings.ts';
import { configCommand } from './config-command.ts';
import { UsageError } from './errors.ts';
import { articlesCommand, rankCommand, trainCommand } from './rank-commands.ts';
import { serveCommand } from './serve-command.ts';
import {
  evaluateCommand,
  fetchTrainingCommand,
  monitorCommand,
  retrainCommand,
  statsCommand,
  trainBulkCommand,
} from './training-commands.ts';
import { exportCommand, importCommand } from './transfer-commands.ts';
import { userCommands } from './user-commands.ts';

/** What commander throws when it has only shown what was asked for. */
const shownCodes = ['commander.helpDisplayed', 'commander.help', 'commander.version'];

const examples = `
Examples:
  $ ranker serve                       a server for this machine, with all it keeps in ./data
  $ ranker articles                    what there is to read, best first
  $ ranker rank https://example.org/a  what an article is worth to you
  $ ranker train https://example.org/a 9

Each setting can be a flag, a variable (RANKER_PORT) or a key of a file (port in
<data>/ranker.json); the first of these counts. "ranker config" shows what is set and from where.
Commands ask the server at --url (RANKER_URL) with your key (RANKER_KEY).
It exits with 0 if all went well, 1 if something failed, 2 if the command was wrong.
`;

/** All commands. */
export function rankerProgram(): Command {
  const program = new Command('ranker')
    .description('Scores articles by your taste, and learns from what you say.')
    .addHelpText('after', examples)
    .showHelpAfterError('(add --help to see what there is)')
    .configureHelp({ helpWidth: 100 })
    .exitOverride();
  for (const command of [
    serveCommand(),
    articlesCommand(),
    rankCommand(),
    trainCommand(),
    trainBulkCommand(),
    fetchTrainingCommand(),
    retrainCommand(),
    statsCommand(),
    monitorCommand(),
    evaluateCommand(),
    exportCommand(),
    importCommand(),
    userCommands(),
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
    await rankerProgram().parseAsync(words, { from: 'user' });
    return 0;
  } catch (error) {
    return report(error);
  }
}

/** Tells what went wrong, unless that has been told; wrong use is 2, any other failure 1. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return shownCodes.includes(error.code) ? 0 : 2;
  const { message = String(error) } = Object(error) as { message?: string };
  process.stderr.write(`ranker: ${message}\n`);
  return error instanceof SettingsError || error instanceof UsageError ? 2 : 1;
}
