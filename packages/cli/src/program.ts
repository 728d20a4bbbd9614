import { Command, CommanderError } from 'commander';
import { print, type TableStyle, table } from './print.ts';
import { SettingsError, type SettingsReader, settingsOf, withSettings } from './settings.ts';

/** The error for a command that was used wrongly. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The codes that commander throws when it has only shown help or a version. */
const shownCodes = ['commander.helpDisplayed', 'commander.version'];

export interface ProgramOptions {
  readonly name: string;
  /** One sentence. */
  readonly about: string;
  /** The end of its help. */
  readonly help: string;
  /** Its commands, in the order of its help. */
  readonly commands: readonly Command[];
}

/** Makes a program whose commands all report errors in the same way. */
export function makeProgram({ name, about, help, commands }: ProgramOptions): Command {
  const program = new Command(name)
    .description(about)
    .addHelpText('after', help)
    .showHelpAfterError('(add --help to see what there is)')
    .configureHelp({ helpWidth: 100 })
    .configureOutput({ outputError: (text, write) => write(withoutValue(text)) })
    .exitOverride();
  for (const command of commands) {
    program.addCommand(command.copyInheritedSettings(program));
    for (const inner of command.commands) inner.copyInheritedSettings(program);
  }
  return program;
}

/** Leaves out the value of an unknown option: it may be a secret behind a mistyped name. */
function withoutValue(complaint: string): string {
  return complaint.replace(/(unknown option '[^'=]*)=.*'/s, "$1'");
}

/** The end of a command's help. */
export function examplesOf(program: string, lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${program} ${line}`).join('\n')}\n`;
}

/** The exit codes of every program, unless a command sets its own. */
export const exitCodes = {
  ok: 0,
  /** Something failed. */
  failed: 1,
  /** The command or a setting was wrong: nothing was begun. */
  usage: 2,
  /** Ctrl-C; the person who pressed it has been told. */
  interrupted: 130,
} as const;

/**
 * Runs the command that the words name, prints what went wrong, and gives the exit code: the entry
 * of `codes` for the error's `code` or `name`, else one of {@link exitCodes}.
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
    // The reader of our output has seen enough.
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  process.exitCode = await run(process.argv.slice(2));
  // Whoever started it may hold a channel open, which would keep a failed start alive.
  if (process.connected) process.disconnect();
}

export interface ConfigCommandOptions {
  /** Commands to show at the end of its help, without the program's name. */
  readonly examples: readonly string[];
  /** The style of its table. */
  readonly style?: TableStyle | undefined;
}

/** The command `<program> config`: shows every setting and its origin. */
export function configCommand<S extends { readonly data: string }>(
  reader: SettingsReader<S>,
  { examples, style }: ConfigCommandOptions,
): Command {
  const command = new Command('config')
    .description('show every setting and where it came from; secrets are hidden')
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf(reader.program, examples))
    .action((options: { readonly json?: boolean }, self: Command) => {
      const { settings, origins } = settingsOf(self, reader);
      const shown = reader.shown(settings);
      const rows = reader.names.map((setting) => {
        return { setting, value: shown[setting], from: origins[setting] };
      });
      print(rows, options.json, () => table(rows, '', style));
    });
  return withSettings(command, reader);
}
