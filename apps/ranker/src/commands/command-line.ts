import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import * as cli from 'spillway-cli';
import { UsageError } from 'spillway-cli';
import { type Settings, settingsInHelp, settingsReader } from '../settings.ts';

/** Gives a command all settings as flags; its help shows the usual ones. */
export function withSettings(command: Command): Command {
  return cli.withSettings(command, settingsReader, settingsInHelp);
}

export function settingsOf(command: Command): Settings {
  return cli.settingsOf(command, settingsReader).settings;
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

/** Asks the server, with a body by POST; gives the answer's JSON, or throws what it said. */
export async function call<Answer>(
  flags: ServerFlags,
  path: string,
  body?: object,
): Promise<Answer> {
  const text = body && JSON.stringify(body);
  return (await (await open(flags, path, text)).json()) as Answer;
}

/** The answer itself; a body is sent as a text of its type. */
export async function open(
  { url = defaultUrl(), key }: ServerFlags,
  path: string,
  body?: string,
  type = 'application/json',
): Promise<Response> {
  const server = url.replace(/\/$/, '');
  const headers = { ...(key !== undefined && { authorization: `Bearer ${key}` }) };
  const sent = { method: 'POST', body, headers: { ...headers, 'content-type': type } };
  const asked = body === undefined ? { headers } : sent;
  const response = await fetch(`${server}${path}`, asked as RequestInit).catch((cause: unknown) => {
    const how = 'start it with "ranker serve", or name another with --url';
    throw new Error(`no server can be reached at ${server}; ${how}`, { cause });
  });
  if (response.ok) return response;
  // Another program may listen at this address.
  const told = (await response.json().catch(() => ({}))) as { error?: Record<string, string> };
  const { code, message = `answered ${response.status}` } = told.error ?? {};
  if (code === 'KEY_NEEDED') throw new UsageError(`${message}; with --key, or in RANKER_KEY`);
  throw new Error(code === undefined ? message : `${code}: ${message}`);
}

function defaultUrl(): string {
  const { port } = settingsReader.read({ flags: {}, environment: process.env }).settings;
  return `http://127.0.0.1:${port}`;
}

/** Rows of the same keys, one below the other; a score has two decimals. */
export function table(rows: readonly object[], none: string): string {
  const isScore = (value: unknown) => typeof value === 'number' && !Number.isInteger(value);
  const written = (value: unknown) =>
    isScore(value) ? (value as number).toFixed(2) : cli.cell(value);
  return cli.table(rows, none, { cell: written });
}

/** The end of a command's help. */
export function examplesOf(...lines: readonly string[]): string {
  return cli.examplesOf('ranker', lines);
}

/** An address as it is, a file's text, or standard input if it is called `-`. */
export function itemOf(word: string): { readonly url: string } | { text: string; title: string } {
  if (/^(https?:\/\/|sample:|text:)/i.test(word)) return { url: word };
  const isInput = word === '-';
  if (!isInput && !existsSync(word)) {
    throw new UsageError(`${word}: is neither an address like https://example.org/a nor a file`);
  }
  const text = readFileSync(isInput ? 0 : word, 'utf8');
  if (text.trim() === '') throw new UsageError(`${word}: there is no text in it`);
  return { text, title: isInput ? '' : titleOf(text, word) };
}

/** A first line that stands alone is a title. */
function titleOf(text: string, path: string): string {
  const [, title] = /^\s*(\S[^\n]{0,200})\n\s*\n/.exec(text) ?? [];
  return title?.trim() ?? basename(path);
}

export function scoreOf(word: string): number {
  const score = Number(word);
  if (word.trim() === '' || !(score >= 1 && score <= 10)) {
    throw new UsageError(`score: must be a number from 1 to 10, got ${word}`);
  }
  return score;
}
