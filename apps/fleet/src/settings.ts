import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { FieldReader } from './field-reader.ts';
import { didYouMean } from './nearest.ts';

/** All that can be set when a server or a command starts. */
export interface Settings {
  readonly data: string;
  readonly database: string;
  readonly host: string;
  readonly port: number;
  readonly publicUrl: string | undefined;
  readonly operatorToken: string | undefined;
  readonly trustProxy: readonly string[];
  readonly netsUrl: string | undefined;
  readonly github: boolean;
  readonly foreignRepos: boolean;
  readonly githubUrl: string;
  readonly githubRawUrl: string;
  readonly githubToken: string | undefined;
  readonly log: boolean;
}

export type SettingName = keyof Settings;

/** What people are told of each setting, in the order in which it is shown. */
export const settingHelp: Readonly<
  Record<SettingName, { readonly value: string; readonly about: string; readonly secret?: true }>
> = {
  data: { value: '<folder>', about: 'where everything is kept (default ./data)' },
  database: {
    value: '<url>',
    about: 'sqlite:<file> or postgres://… (default sqlite:<data>/fleet.db)',
    secret: true,
  },
  host: { value: '<address>', about: 'address to listen at (default 127.0.0.1)' },
  port: { value: '<number>', about: 'port to listen at, 0 for a free one (default 6543)' },
  publicUrl: { value: '<url>', about: 'where workers reach it (default: as they asked)' },
  operatorToken: {
    value: '<word>',
    about: 'lets commands of other machines in; at least 16 characters',
    secret: true,
  },
  trustProxy: {
    value: '<addresses>',
    about: 'proxies whose X-Forwarded-For is believed, with commas (default: none)',
  },
  netsUrl: { value: '<url>', about: 'where nets come from that are not here (default: nowhere)' },
  github: {
    value: '<true|false>',
    about: 'whether GitHub is asked for books, and about new runs (default true)',
  },
  foreignRepos: {
    value: '<true|false>',
    about: 'whether accounts since July 2025 may test forks of other engines (default false)',
  },
  githubUrl: { value: '<url>', about: 'its API, or a mirror (default https://api.github.com)' },
  githubRawUrl: {
    value: '<url>',
    about: 'its files, or a mirror (default https://raw.githubusercontent.com)',
  },
  githubToken: { value: '<word>', about: 'a token for GitHub (default: none)', secret: true },
  log: { value: '<true|false>', about: 'warnings as lines of JSON on stderr (default false)' },
};

export const settingNames: readonly SettingName[] = Object.keys(settingHelp) as SettingName[];

export interface SettingsSources {
  /** By the name of the setting; `config` names a file. */
  readonly flags: Readonly<Partial<Record<SettingName | 'config', string>>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export interface SettingsReading {
  readonly settings: Settings;
  /** Where each came from: `flag --port`, `environment FLEET_PORT`, `file <path>`, `default`. */
  readonly origins: Readonly<Record<SettingName, string>>;
}

/** Settings that cannot be used, each with the place it came from and its rule. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/** Variables with our prefix that are no settings. */
const otherVariables = ['FLEET_CONFIG', 'FLEET_PASSWORD'];
const fileName = 'fleet.json';

export function flagOf(name: SettingName | 'config'): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function variableOf(name: SettingName | 'config'): string {
  return `FLEET_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** A flag comes before the environment, that before the file, and that before the default. */
export function readSettings({ flags, environment }: SettingsSources): SettingsReading {
  checkVariables(environment);
  const sent: Partial<Record<SettingName, unknown>> = {};
  const origins = Object.fromEntries(settingNames.map((name) => [name, 'default'])) as Record<
    SettingName,
    string
  >;
  for (const name of settingNames) {
    const [flag, variable] = [flags[name], environment[variableOf(name)]];
    if (flag !== undefined) origins[name] = `flag ${flagOf(name)}`;
    else if (variable !== undefined) origins[name] = `environment ${variableOf(name)}`;
    const value = flag ?? variable;
    if (value !== undefined) sent[name] = value;
  }
  const file = readFile(flags.config ?? environment[variableOf('config')], sent.data);
  for (const [name, value] of Object.entries(file?.values ?? {})) {
    if (Object.hasOwn(sent, name)) continue;
    sent[name as SettingName] = value;
    origins[name as SettingName] = `file ${file?.path}`;
  }
  const reader = new FieldReader(sent);
  const from = (name: SettingName) =>
    origins[name].startsWith('file ') ? dirname(file?.path ?? '.') : '.';
  const settings = settingsOf(reader, from);
  if (reader.faults.length > 0) {
    const lines = reader.faults.map(({ field, message }) => {
      return `${field} (${origins[field as SettingName]}): ${message}`;
    });
    throw new SettingsError(lines.join('\n'));
  }
  return { settings, origins };
}

/** The settings as they may be shown to anybody. */
export function shownSettings(settings: Settings): Record<SettingName, unknown> {
  const shown: [string, unknown][] = settingNames.map((name) => {
    const value = settings[name];
    if (value === undefined || !settingHelp[name].secret) return [name, value ?? ''];
    if (name !== 'database') return [name, '(hidden)'];
    return [name, settings.database.replace(/^(\w+:\/\/[^:@/]*):[^@]*@/, '$1:(hidden)@')];
  });
  return Object.fromEntries(shown) as Record<SettingName, unknown>;
}

function settingsOf(reader: FieldReader, from: (name: SettingName) => string): Settings {
  const text = (name: SettingName, rule: string, pattern: RegExp, absent: string) =>
    reader.text(name, { rule, holds: (value) => pattern.test(value), absent });
  const url = (name: SettingName, absent: string) =>
    text(
      name,
      'an address like https://example.org, without a slash at its end',
      urlPattern,
      absent,
    );
  const data = resolve(from('data'), text('data', 'the path of a folder', /./, 'data'));
  return {
    data,
    database: text(
      'database',
      'sqlite:<file> or postgres://user:password@host:port/database',
      /^sqlite:.|^postgres(ql)?:\/\/./,
      `sqlite:${join(data, 'fleet.db')}`,
    ),
    host: text('host', 'an address or a name', /^[\w.:-]+$/, '127.0.0.1'),
    port: reader.integer('port', {
      rule: 'an integer from 0 to 65535',
      holds: (value) => value >= 0 && value <= 65_535,
      absent: 6543,
    }),
    publicUrl: url('publicUrl', '') || undefined,
    operatorToken:
      text('operatorToken', 'a word of 16 to 1024 characters', /^(\S{16,1024})?$/, '') || undefined,
    trustProxy: reader.words('trustProxy', {
      rule: 'addresses or nets like 10.0.0.0/8',
      holds: (list) => list.every((one) => /^[0-9a-f.:/]+$|^loopback$/.test(one)),
      absent: [],
    }),
    netsUrl: url('netsUrl', '') || undefined,
    github: reader.flag('github', true),
    foreignRepos: reader.flag('foreignRepos', false),
    githubUrl: url('githubUrl', 'https://api.github.com'),
    githubRawUrl: url('githubRawUrl', 'https://raw.githubusercontent.com'),
    githubToken: text('githubToken', 'a word', /^\S*$/, '') || undefined,
    log: reader.flag('log', false),
  };
}

const urlPattern = /^(https?:\/\/\S*[^/\s])?$/;

function checkVariables(environment: SettingsSources['environment']): void {
  const known = [...settingNames.map(variableOf), ...otherVariables];
  for (const name of Object.keys(environment)) {
    if (!name.startsWith('FLEET_') || known.includes(name)) continue;
    throw new SettingsError(`environment ${name}: is not known${didYouMean(name, known)}`);
  }
}

interface SettingsFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** The file that was named, which must be there, or the one in the data folder if there is one. */
function readFile(named: string | undefined, data: unknown): SettingsFile | undefined {
  const isOwn = named === undefined;
  const path = resolve(named ?? join(String(data ?? 'data'), fileName));
  let values: unknown;
  try {
    values = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (isOwn && (code === 'ENOENT' || code === 'ENOTDIR')) return undefined;
    throw new SettingsError(`file ${path}: cannot be read as JSON: ${message}`);
  }
  const reader = new FieldReader(values);
  reader.only(settingNames);
  if (isOwn && reader.has('data')) {
    reader.fault('data', 'cannot be set here, since this file is looked for in the data folder');
  }
  const [fault] = reader.faults;
  if (fault === undefined) return { path, values: values as SettingsFile['values'] };
  throw new SettingsError(`file ${path}: ${`${fault.field} ${fault.message}`.trim()}`);
}
