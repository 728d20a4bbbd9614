import type { Command } from 'commander';
import { Option } from 'commander';
import { flagOf, readSettings, type Settings, settingHelp, settingNames } from '../settings.ts';
import type { Operator } from './operator.ts';

/** Gives a command all settings as flags; most are shown only where they matter. */
export function withSettings(command: Command, shown: 'all' | 'few' = 'few'): Command {
  for (const name of settingNames) {
    const { value, about } = settingHelp[name];
    const option = new Option(`${flagOf(name)} ${value}`, about).helpGroup('Settings:');
    command.addOption(shown === 'all' || name === 'data' ? option : option.hideHelp());
  }
  const config = new Option('--config <file>', 'settings as JSON (default <data>/fleet.json)');
  return command.addOption(config.helpGroup('Settings:'));
}

export function settingsOf(command: Command): Settings {
  return readSettings({ flags: command.opts(), environment: process.env }).settings;
}

/** Loaded when it is needed: help and complaints come at once without. */
export async function operatorOf(command: Command): Promise<Operator> {
  const settings = settingsOf(command);
  const { openOperator } = await import('./operator.ts');
  return openOperator(settings);
}

/** Asks for one thing, and names the flag of what was wrong with it. */
export async function ask(command: Command, name: string, input: object): Promise<unknown> {
  await using operator = await operatorOf(command);
  return await called(command, operator, name, input);
}

export async function called(
  command: Command,
  operator: Operator,
  name: string,
  input: object,
): Promise<unknown> {
  try {
    return await operator.call(name, input);
  } catch (error) {
    const { code, message } = Object(error) as { code?: unknown; message?: string };
    if (code !== 'INPUT_INVALID' || message === undefined) throw error;
    const lines = message.split('\n').map((line) => withFlag(command, line));
    const hint = `(fleet ${pathOf(command)} --help tells what there is)`;
    throw Object.assign(new Error([...lines, hint].join('\n')), { code, cause: error });
  }
}

/** What a command gives to programs, or to people. */
export function print(value: unknown, json: boolean | undefined, text: () => string): void {
  process.stdout.write(`${json ? JSON.stringify(value, null, 2) : text()}\n`);
}

/** Rows of the same keys, one below the other; a title for each key. */
export function table(rows: readonly object[], none: string): string {
  const [first] = rows;
  if (first === undefined) return none;
  const titles = Object.keys(first);
  const cells = rows.map((row) => Object.values(row).map(cell));
  const widths = titles.map((title, at) =>
    Math.max(title.length, ...cells.map((line) => (line[at] ?? '').length)),
  );
  const line = (texts: readonly string[]) =>
    texts
      .map((text, at) => text.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd();
  return [line(titles), ...cells.map(line)].join('\n');
}

function cell(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return String(value) || '-';
}

/** A complaint about `new_tag` is one about `--new-tag` to who typed that. */
function withFlag(command: Command, line: string): string {
  const field = /^([\w.]+): /.exec(line)?.[1];
  if (field === undefined) return line;
  const [name = '', inner] = field.split('.');
  const flag = `--${name.replaceAll('_', '-')}`;
  if (!command.options.some(({ long }) => long === flag)) return line;
  return `${flag}${inner === undefined ? '' : ` (${inner})`}${line.slice(field.length)}`;
}

function pathOf(command: Command): string {
  const { parent } = command;
  if (parent === null) return '';
  return `${pathOf(parent)} ${command.name()}`.trim();
}
