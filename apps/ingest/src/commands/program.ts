import { Command, CommanderError } from 'commander';
import { SettingsError } from '../settings.ts';
import { configCommand } from './config-command.ts';
import { exchangeCommand } from './exchange-command.ts';
import { exitCodes, UsageError } from './exit-codes.ts';
import { followCommand } from './follow-command.ts';
import { gapsCommands } from './gaps-commands.ts';
import { productsCommand } from './products-command.ts';
import { queryCommand } from './query-command.ts';
import { runCommand } from './run-command.ts';
import { statusCommand } from './status-command.ts';
import { transformCommand } from './transform-command.ts';
import { verifyCommand } from './verify-command.ts';

/** What commander throws when it has only shown what was asked for. */
const shownCodes = ['commander.helpDisplayed', 'commander.version'];
/** Codes of errors that are about what was asked, so that nothing was begun. */
const usageCodes = ['PRODUCT_BEGUN_LATER', 'SEED_UNREADABLE', 'QUERY_FAILED', 'QUERY_REFUSED'];

const examples = `
Examples, all on this machine:
  $ ingest exchange                            a simulated exchange, in a terminal of its own
  $ ingest run BTC-USD --exchange simulated    every trade of it, into ./data
  $ ingest verify --exchange simulated         nothing is missing, nothing twice
  $ ingest query "SELECT count(*), max(price) FROM trades"
With a real one:
  $ ingest products --filter-regex '^(BTC|ETH)-USD$'
  $ ingest run --max-requests 100

Each setting can be a flag, a variable (INGEST_DATA) or a key of a file (port in
<data>/ingest.json); the first of these counts. "ingest config" shows what is set and why.
It exits with 0 if all went well, 1 if something failed or is not right, 2 if the command was
wrong, 3 if other processes hold the lock of all that was asked for, 130 after Ctrl-C.
`;

/** All commands. */
export function ingestProgram(): Command {
  const program = new Command('ingest')
    .description('Every trade of an exchange, at the edge of its rate limit, into exact Parquet.')
    .addHelpText('after', examples)
    .showHelpAfterError('(add --help to see what there is)')
    .configureHelp({ helpWidth: 100 })
    .exitOverride();
  for (const command of [
    productsCommand(),
    runCommand(),
    followCommand(),
    transformCommand(),
    verifyCommand(),
    statusCommand(),
    queryCommand(),
    gapsCommands(),
    exchangeCommand(),
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
    await ingestProgram().parseAsync(words, { from: 'user' });
    return typeof process.exitCode === 'number' ? process.exitCode : exitCodes.ok;
  } catch (error) {
    return report(error);
  }
}

/** Tells what went wrong, unless that has been told. */
function report(error: unknown): number {
  if (error instanceof CommanderError) {
    return shownCodes.includes(error.code) ? exitCodes.ok : exitCodes.usage;
  }
  const {
    message = String(error),
    code,
    name,
  } = Object(error) as Partial<Error & { code: string }>;
  if (name === 'AbortError') return exitCodes.interrupted;
  process.stderr.write(`ingest: ${message}\n`);
  if (code === 'TABLE_LOCKED') return exitCodes.locked;
  const isWrongUse = error instanceof SettingsError || error instanceof UsageError;
  return isWrongUse || usageCodes.includes(code ?? '') ? exitCodes.usage : exitCodes.failed;
}
