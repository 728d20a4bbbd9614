import type { Command } from 'commander';
import { configCommand, makeProgram, runProgram as run } from 'spillway-cli';
import { settingsReader } from '../settings.ts';
import { exitCodes, tableStyle } from './command-line.ts';
import {
  cleanCommand,
  productsCommand,
  resumeCommand,
  statusCommand,
  verifyCommand,
} from './inspect.ts';
import { gapsCommands, runCommand, transformCommand } from './run.ts';
import { exchangeCommand, followCommand } from './serve.ts';
import { sourceCommands } from './source.ts';
import { copyStoreCommand } from './store.ts';
import { exportCommand, filesCommand, icebergCommand, queryCommand } from './table.ts';

/** Exit codes of errors other than failures: wrong use, a lock, Ctrl-C. */
const errorExitCodes = {
  AbortError: exitCodes.interrupted,
  PRODUCT_BEGUN_LATER: exitCodes.usage,
  QUERY_FAILED: exitCodes.usage,
  QUERY_REFUSED: exitCodes.usage,
  SEED_UNREADABLE: exitCodes.usage,
  SOURCE_INVALID: exitCodes.usage,
  LEASE_HELD: exitCodes.locked,
  TABLE_LOCKED: exitCodes.locked,
};

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
Exit codes: 0 success; 1 something failed, or verify found an issue; 2 wrong command or setting;
3 other processes have locked all requested products; 4 success, but trades are missing (see
ingest gaps); 130 Ctrl-C.
`;

const configExamples = ['config', 'config --exchange kraken --json'];

/** Makes the program with all commands. */
export function ingestProgram(): Command {
  return makeProgram({
    name: 'ingest',
    about: 'Every trade of an exchange, at the edge of its rate limit, into exact Parquet.',
    help: examples,
    commands: [
      productsCommand(),
      runCommand(),
      followCommand(),
      transformCommand(),
      verifyCommand(),
      statusCommand(),
      queryCommand(),
      filesCommand(),
      exportCommand(),
      icebergCommand(),
      sourceCommands(),
      gapsCommands(),
      resumeCommand(),
      cleanCommand(),
      copyStoreCommand(),
      exchangeCommand(),
      configCommand(settingsReader, { examples: configExamples, style: tableStyle }),
    ],
  });
}

/** Runs a command line; returns the exit code. */
export function runProgram(words: readonly string[]): Promise<number> {
  return run(ingestProgram(), words, errorExitCodes);
}
