import { type Command, Option } from 'commander';
import type { Settings } from '../setting-list.ts';
import { settingRules } from '../setting-list.ts';
import { flagOf, readSettings, settingNames } from '../settings.ts';
import { Client } from './client.ts';

/** Gives a command all settings as flags. */
export function withSettings(command: Command): Command {
  for (const name of settingNames) {
    const { value, about } = settingRules[name];
    command.addOption(new Option(`${flagOf(name)} ${value}`, about).helpGroup('Settings:'));
  }
  const config = new Option('--config <file>', 'settings as JSON (default <data>/ranker.json)');
  return command.addOption(config.helpGroup('Settings:'));
}

export function settingsOf(command: Command): Settings {
  return readSettings({ flags: command.opts(), environment: process.env }).settings;
}

/** Gives a command what it needs to reach a server, and `--json`. */
export function withServer(command: Command): Command {
  return command
    .option('--json', 'print JSON')
    .addOption(
      new Option('--url <address>', 'the server (default http://127.0.0.1:19090)').env(
        'RANKER_URL',
      ),
    )
    .addOption(new Option('--key <key>', 'your key, shown at the first start').env('RANKER_KEY'));
}

export interface ServerFlags {
  readonly json?: boolean;
  readonly url?: string;
  readonly key?: string;
}

export function clientOf({ url, key }: ServerFlags): Client {
  if (url !== undefined) return new Client({ url: url.replace(/\/$/, ''), key });
  const { port } = readSettings({ flags: {}, environment: process.env }).settings;
  return new Client({ url: `http://127.0.0.1:${port}`, key });
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
  if (value === null || value === undefined) return '-';
  if (typeof value === 'number' && !Number.isInteger(value)) return value.toFixed(2);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return String(value) || '-';
}

/** The end of a command's help. */
export function examplesOf(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ranker ${line}`).join('\n')}\n`;
}
