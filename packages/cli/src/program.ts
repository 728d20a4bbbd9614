import { Command, CommanderError } from 'commander';
import { SettingsError } from './settings-reader.ts';
import { UsageError } from './usage-error.ts';

/** What commander throws when it has only shown what was asked for. */
const shownCodes = ['commander.helpDisplayed', 'commander.version'];

export interface ProgramOptions {
  readonly name: string;
  /** One sentence. */
  readonly about: string;
  /** The end of its help. */
  readonly help: string;
  readonly commands: readonly Command[];
}

/** A program of commands, and of commands in these, that all complain in the same way. */
export function makeProgram({ name, about, help, commands }: ProgramOptions): Command {
  const program = new Command(name)
    .description(about)
    .addHelpText('after', help)
    .showHelpAfterError('(add --help to see what there is)')
    .configureHelp({ helpWidth: 100 })
    .exitOverride();
  for (const command of commands) {
    program.addCommand(command.copyInheritedSettings(program));
    for (const inner of command.commands) inner.copyInheritedSettings(program);
  }
  return program;
}

/** The end of a command's help. */
export function examplesOf(program: string, lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${program} ${line}`).join('\n')}\n`;
}

/** What every program ends with, if a command has nothing else to say. */
export const exitCodes = {
  ok: 0,
  /** Something failed. */
  failed: 1,
  /** The command or a setting was wrong: nothing was begun. */
  usage: 2,
  /** Ctrl-C; whoever pressed it has been told. */
  interrupted: 130,
} as const;

/**
 * Runs the command that the words make, tells what went wrong, and gives the exit code:
 * that of the error's `code` or `name` in `codes`, else one of {@link exitCodes}.
 */
export async function runProgram(
  program: Command,
  words: readonly string[],
  codes: Readonly<Record<string, number>> = {},
): Promise<number> {
  try {
    await program.parseAsync(words, { from: 'user' });
    return typeof process.exitCode === 'number' ? process.exitCode : exitCodes.ok;
  } catch (error) {
    const { message = String(error), code, name } = Object(error) as Partial<NodeJS.ErrnoException>;
    const exitCode = codes[code ?? ''] ?? codes[name ?? ''] ?? exitCodeOf(error);
    const isTold = error instanceof CommanderError || exitCode === exitCodes.interrupted;
    if (!isTold) process.stderr.write(`${program.name()}: ${message}\n`);
    return exitCode;
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    return shownCodes.includes(error.code) ? exitCodes.ok : exitCodes.usage;
  }
  const isWrongUse = error instanceof SettingsError || error instanceof UsageError;
  return isWrongUse ? exitCodes.usage : exitCodes.failed;
}

/** Runs a program with the words it was started with, as the whole of this process. */
export async function runMain(run: (words: readonly string[]) => Promise<number>): Promise<void> {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever read our output has seen enough.
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  process.exitCode = await run(process.argv.slice(2));
}
