import type { Command } from 'commander';
import { configCommand, exitCodes, makeProgram, runProgram as run } from 'spillway-cli';
import { settingsReader } from '../settings.ts';
import { backupCommand, restoreCommand } from './backup-commands.ts';
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
  return makeProgram({
    name: 'ranker',
    about: 'Scores articles by your taste, and learns from what you say.',
    help: examples,
    commands: [
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
      backupCommand(),
      restoreCommand(),
      userCommands(),
      configCommand(settingsReader, { examples: ['config', 'config --port 8000 --json'] }),
    ],
  });
}

/** Runs the command that the words make; gives the exit code. */
export function runProgram(words: readonly string[]): Promise<number> {
  return run(rankerProgram(), words, { 'commander.help': exitCodes.ok });
}
