import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Command, InvalidArgumentError, Option } from 'commander';
import * as cli from 'spillway-cli';
import { StopSignal } from 'spillway-cli';
import type { Ingest } from '../open.ts';
import { type Settings, settingsReader } from '../settings.ts';

/** Gives a command all settings as flags; most are shown only where they matter. */
export function withSettings(command: Command, shown: readonly string[] = []): Command {
  return cli.withSettings(command, settingsReader, ['data', 'exchange', 'source', ...shown]);
}

export function settingsOf(command: Command): Settings {
  return cli.settingsOf(command, settingsReader).settings;
}

/** One call of a command with an open ingest. */
export interface Call<Flags = object> {
  readonly ingest: Ingest;
  readonly flags: Flags;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
}

/** The result of a command: a value for programs, and a text for people. */
export interface Result {
  readonly value: unknown;
  readonly text: () => string;
  /** @default 0 */
  readonly exitCode?: number;
}

/** The work of a command with an open ingest. */
interface Work<Flags, Words extends unknown[]> {
  readonly examples: readonly string[];
  /** Settings to show in the help. */
  readonly shown?: readonly string[];
  /** True if it changes nothing, so that the data folder may be read-only. */
  readonly readsOnly?: boolean;
  readonly run: (call: Call<Flags>, ...words: Words) => Promise<Result>;
}

/** Completes a command: opens an ingest for its work, and prints the result as text or JSON. */
export function onIngest<Flags extends object, Words extends unknown[]>(
  command: Command,
  { examples, shown, readsOnly, run }: Work<Flags, Words>,
): Command {
  command
    .option('--json', 'print JSON')
    .addHelpText('after', examplesOf(...examples))
    .action(async () => {
      const flags = command.opts<Flags & { json?: true; maxRequests?: number }>();
      const { json, maxRequests } = flags;
      const settings = settingsOf(command);
      using stop = new StopRequest();
      const { signal } = stop;
      // Imported late, so that help and usage errors come at once.
      const { openIngest } = await import('../open.ts');
      const { env: environment } = process;
      const options = { settings, environment, signal, maxRequests, readsOnly };
      await using ingest = await openIngest(options);
      const words = command.processedArgs as Words;
      const { value, text, exitCode } = await run({ ingest, flags, signal }, ...words);
      cli.print(value, json, text);
      process.exitCode = exitCode ?? exitCodes.ok;
    });
  return withSettings(command, shown);
}

/** A share of the products, for the `index`-th of `count` machines. */
export interface Shard {
  readonly index: number;
  readonly count: number;
}

/** Makes the flag for a share of the products. */
export function shardOption(): Option {
  const about = 'only the products of this machine, the i-th of n: 1/4';
  return new Option('--shard <i/n>', about).argParser((text): Shard => {
    const [index = 0, count = 0] = (/^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? []).slice(1).map(Number);
    if (index >= 1 && index <= count) return { index, count };
    throw new cli.UsageError(`--shard: must be i/n with i from 1 to n, got ${text}`);
  });
}

/** Returns the named products, or those of the list, limited to the share of this machine. */
export async function productsOf(
  named: readonly string[],
  settings: Settings,
  { index, count }: Shard = { index: 1, count: 1 },
): Promise<readonly string[]> {
  const all = await allProducts(named, settings);
  const own = all.toSorted().filter((_, at) => at % count === index - 1);
  return count === 1 ? all : own;
}

async function allProducts(
  named: readonly string[],
  { seedPath, source, exchange }: Settings,
): Promise<readonly string[]> {
  if (named.length > 0) return [...new Set(named)];
  if (source !== undefined) {
    const { loadDeclaration } = await import('../connectors/declaration.ts');
    const { name, products = [name] } = await loadDeclaration(source);
    if (!('path' in products)) return [...new Set(products)];
  }
  const { readSeed } = await import('../harvest/product-list.ts');
  const { productIds } = await readSeed(seedPath);
  if (productIds.length > 0) return productIds;
  const from = source === undefined ? `--exchange ${exchange}` : `--source ${source}`;
  const how = `make the list ${seedPath} with "ingest products ${from}"`;
  throw new cli.UsageError(`no products: name some, or ${how}`);
}

/** Returns the named products, or all harvested ones; refuses unknown names. */
export function harvestedOf(named: readonly string[], known: readonly string[]): readonly string[] {
  const unknown = named.find((name) => !known.includes(name));
  if (unknown === undefined) return named.length > 0 ? named : known;
  throw new cli.UsageError(`${unknown}: nothing was harvested of it yet`);
}

/** Message for a folder without a table. */
export function nothingIn({ folder }: Pick<Ingest, 'folder'>): string {
  return `${folder.place}: nothing was harvested yet; see ingest run`;
}

/** Message where nothing was harvested from this exchange; names the exchanges that are there. */
export async function nothingFrom({ ledger, store }: Ingest): Promise<string> {
  const records = await store.list('generation/', { max: 10_000 });
  const others = [...new Set(records.map(({ name }) => name.split('/')[1]))];
  const isAny = others.length > 0;
  const what = isAny ? `only ${others.join(', ')} is here: add --exchange or --source` : '';
  return `Nothing was harvested from ${ledger.exchange} yet; ${what || 'see ingest run'}.`;
}

export function examplesOf(...lines: readonly string[]): string {
  return cli.examplesOf('ingest', lines);
}

/** Parses a flag that is an integer from 1. */
export function integerFrom1(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be an integer from 1.');
}

/** Makes a flag for a time; its value is in microseconds since 1970. */
export function timeOption(flags: string, about: string): Option {
  return new Option(flags, `${about} (2026-01-31, or with a time, in UTC)`).argParser((text) => {
    const isWritten = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?)?$/.test(text);
    const isWhole = text.includes('T') && !text.endsWith('Z');
    const ms = isWritten ? Date.parse(isWhole ? `${text}Z` : text) : Number.NaN;
    // `Date` would take February 30 for a day in March.
    const isDay = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text.slice(0, 10));
    if (isDay) return BigInt(ms) * 1000n;
    const flag = flags.split(' ')[0];
    throw new cli.UsageError(`${flag}: must be a time like 2026-01-31, got ${text}`);
  });
}

interface TimeRange {
  readonly since?: bigint | undefined;
  readonly until?: bigint | undefined;
}

/** Refuses an empty range of time. */
export function checkTimes({ since, until }: TimeRange): void {
  if (since === undefined || until === undefined || since < until) return;
  throw new cli.UsageError('--since: must be before --until');
}

/** Returns the noun for what is harvested. */
export function nounOf({ source }: Pick<Settings, 'source'>): 'trade' | 'record' {
  return source === undefined ? 'trade' : 'record';
}

/** Formats a number with its noun. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

/** Formats tables with thousands separators and aligned numbers. */
export const tableStyle: cli.TableStyle = { cell, alignsNumbers: true };

/** Formats rows as a table with a title for each key; `none` is shown if there are no rows. */
export function table(rows: readonly object[], none: string): string {
  return cli.table(rows, none, tableStyle);
}

function cell(value: unknown): string {
  if (typeof value === 'number') return value.toLocaleString('en-US', { maximumFractionDigits: 3 });
  if (typeof value === 'object' && value !== null) return JSON.stringify(value);
  // A price has 9 or more decimals in the table, and most of them are zeros.
  const isDecimal = typeof value === 'string' && /^-?\d+\.\d{9,38}$/.test(value);
  return isDecimal ? value.replace(/\.?0+$/, '') : cli.cell(value);
}

/** Exit codes of the commands, for people and schedulers. */
export const exitCodes = {
  ...cli.exitCodes,
  /** Other processes have locked all requested products. */
  locked: 3,
  /** Success, with trades noted as missing. */
  gaps: 4,
} as const;

/** Handles Ctrl-C and SIGTERM until disposed: the first stops, the second ends at once. */
export class StopRequest extends StopSignal {
  constructor() {
    super({ first: 'what is complete is committed', left: () => 'What is committed stays.' });
  }
}

/**
 * Frees unused memory, some 60 MB after a harvest. V8 would not do so by itself, as it does not
 * know of DuckDB, which needs the memory next. It blocks the event loop for some 30 ms, so it is
 * for commands, not for services.
 */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const gc: NonNullable<typeof global.gc> = runInNewContext('gc');
  // Other flavors keep free pages.
  gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
