import { stat } from 'node:fs/promises';
import type { Command } from 'commander';
import * as cli from 'spillway-cli';
import type { AnyOperation } from '../operations/operation.ts';
import { checkInput, operations } from '../operations/operations.ts';
import { type Settings, settingsReader } from '../settings.ts';

/** Gives a command all settings as flags; most are shown only where they matter. */
export function withSettings(
  command: Command,
  shown: 'all' | readonly (keyof Settings)[] = ['data'],
): Command {
  return cli.withSettings(command, settingsReader, shown);
}

export function examplesOf(...lines: readonly string[]): string {
  return cli.examplesOf('fleet', lines);
}

export function settingsOf(command: Command): Settings {
  return cli.settingsOf(command, settingsReader).settings;
}

/** Throws for a path that is no file, before anything is opened or made. */
export async function demandFiles(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) throw new cli.UsageError(`${path}: there is no such file`);
    if (!found.isFile()) throw new cli.UsageError(`${path}: is no file`);
  }
}

/** Runs an operation; faults of its input name the flags of the command. */
export async function ask(command: Command, name: string, input: object): Promise<unknown> {
  const settings = settingsOf(command);
  const operation = operations.get(name) as AnyOperation;
  try {
    // Before anything is opened or made for it.
    checkInput(operation, input);
    // Loaded late, so that help and usage errors are printed at once.
    const { openOperator } = await import('./operator.ts');
    await using operator = await openOperator(settings, operation.role === 'reader');
    return await operator.call(name, input);
  } catch (error) {
    const { code, message } = Object(error) as { code?: unknown; message?: string };
    if (code !== 'INPUT_INVALID' || message === undefined) throw error;
    const lines = message.split('\n').map((line) => withFlag(command, line));
    const hint = `(fleet ${pathOf(command)} --help tells what there is)`;
    throw Object.assign(new Error([...lines, hint].join('\n')), { code, cause: error });
  }
}

/** Replaces the field of a fault, such as `new_tag`, by its flag, `--new-tag`. */
function withFlag(command: Command, line: string): string {
  const field = /^([\w.]+): /.exec(line)?.[1];
  if (field === undefined) return line;
  const [name = '', inner] = field.split('.');
  const flag = name === 'username' ? '--user' : `--${name.replaceAll('_', '-')}`;
  if (!command.options.some(({ long }) => long === flag)) return line;
  return `${flag}${inner === undefined ? '' : ` (${inner})`}${line.slice(field.length)}`;
}

function pathOf(command: Command): string {
  const { parent } = command;
  if (parent === null) return '';
  return `${pathOf(parent)} ${command.name()}`.trim();
}
