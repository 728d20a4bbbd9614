import type { Command } from 'commander';
import { Option } from 'commander';
import type { Ingest, IngestOptions } from '../open-ingest.ts';
import { type Settings, settingRules } from '../setting-rules.ts';
import { flagOf, readSettings, settingNames } from '../settings.ts';

/** Gives a command all settings as flags; most are shown only where they matter. */
export function withSettings(command: Command, shown: readonly string[] = []): Command {
  const always = ['data', 'exchange', ...shown];
  for (const name of settingNames) {
    const { value, about } = settingRules[name];
    const option = new Option(`${flagOf(name)} ${value}`, about).helpGroup('Settings:');
    const isShown = always.includes(name) || shown.includes('all');
    command.addOption(isShown ? option : option.hideHelp());
  }
  const config = new Option('--config <file>', 'settings as JSON (default <data>/ingest.json)');
  return command.addOption(config.helpGroup('Settings:'));
}

export function settingsOf(command: Command): Settings {
  return readSettings({ flags: command.opts(), environment: process.env }).settings;
}

/** Loaded when it is needed: help and complaints come at once without. */
export async function openFor(
  command: Command,
  options: Pick<IngestOptions, 'signal' | 'maxRequests'> = {},
): Promise<Ingest> {
  const settings = settingsOf(command);
  const { openIngest } = await import('../open-ingest.ts');
  return openIngest({ ...options, settings, environment: process.env });
}

/** The products that were named, or those of the list. */
export async function productsOf(
  named: readonly string[],
  { seedPath }: Settings,
): Promise<readonly string[]> {
  if (named.length > 0) return [...new Set(named)];
  const { readSeed } = await import('../harvesting/seed-file.ts');
  const { UsageError } = await import('./exit-codes.ts');
  const { productIds } = await readSeed(seedPath);
  if (productIds.length > 0) return productIds;
  throw new UsageError(
    `no products: name some, or make the list ${seedPath} with "ingest products"`,
  );
}

export function examplesOf(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ingest ${line}`).join('\n')}\n`;
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
  const isNumber = titles.map((title) =>
    rows.every((row) => typeof (row as Record<string, unknown>)[title] === 'number'),
  );
  const widths = titles.map((title, at) =>
    Math.max(title.length, ...cells.map((line) => (line[at] ?? '').length)),
  );
  const line = (texts: readonly string[]) =>
    texts
      .map((each, at) => {
        const width = widths[at] ?? 0;
        return isNumber[at] ? each.padStart(width) : each.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return [line(titles), ...cells.map(line)].join('\n');
}

function cell(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (value === null || value === undefined || value === '') return '-';
  if (typeof value === 'number') return value.toLocaleString('en-US', { maximumFractionDigits: 3 });
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
