import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { type Settings, settingRules } from './setting-list.ts';

export type SettingName = keyof Settings;

export const settingNames: readonly SettingName[] = Object.keys(settingRules) as SettingName[];

export interface SettingsSources {
  /** By the name of the setting; `config` names a file. */
  readonly flags: Readonly<Partial<Record<SettingName | 'config', string>>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export interface SettingsReading {
  readonly settings: Settings;
  /** Where each came from: `flag --port`, `environment RANKER_PORT`, `file <path>`, `default`. */
  readonly origins: Readonly<Record<SettingName, string>>;
}

/** Settings that cannot be used, each with the place it came from and its rule. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/** Variables with our prefix that are no settings: the last ones size the proofs. */
const otherVariables = ['RANKER_CONFIG', 'RANKER_KEY', 'RANKER_KILLS', 'RANKER_URL'];
const fileName = 'ranker.json';

export function flagOf(name: SettingName | 'config'): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function variableOf(name: SettingName | 'config'): string {
  return `RANKER_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** A flag comes before the environment, that before the file, and that before the default. */
export function readSettings({ flags, environment }: SettingsSources): SettingsReading {
  checkVariables(environment);
  const data = flags.data ?? environment[variableOf('data')];
  const file = readFile(flags.config ?? environment[variableOf('config')], data);
  const faults: string[] = [];
  const origins = {} as Record<SettingName, string>;
  const settings = {} as Record<SettingName, unknown>;
  for (const name of settingNames) {
    const { sent, origin } = sentFor(name, { flags, environment }, file);
    const { rule, read, absent, isSecret } = settingRules[name];
    const value = sent === undefined ? absent : read(sent);
    origins[name] = origin;
    settings[name] = value;
    if (value !== undefined) continue;
    const got = isSecret ? 'something else' : inspect(sent, { depth: 0, maxStringLength: 80 });
    faults.push(`${name} (${origin}): must be ${rule}, got ${got}`);
  }
  if (faults.length > 0) throw new SettingsError(faults.join('\n'));
  const base = origins.data.startsWith('file ') ? dirname(file?.path ?? '.') : '.';
  const folder = resolve(base, settings.data as string);
  settings.data = folder;
  settings.database ||= `sqlite:${join(folder, 'ranker.db')}`;
  return { settings: settings as unknown as Settings, origins };
}

/** The settings as they may be shown to anybody. */
export function shownSettings(settings: Settings): Record<SettingName, unknown> {
  const shown = settingNames.map((name) => {
    const value = settings[name];
    if (!settingRules[name].isSecret || value === '') return [name, value];
    if (name !== 'database') return [name, '(hidden)'];
    return [name, settings.database.replace(/^(\w+:\/\/[^:@/]*):[^@]*@/, '$1:(hidden)@')];
  });
  return Object.fromEntries(shown) as Record<SettingName, unknown>;
}

function sentFor(
  name: SettingName,
  { flags, environment }: SettingsSources,
  file: SettingsFile | undefined,
): { readonly sent: unknown; readonly origin: string } {
  const variable = variableOf(name);
  if (flags[name] !== undefined) return { sent: flags[name], origin: `flag ${flagOf(name)}` };
  const given = environment[variable];
  if (given !== undefined) return { sent: given, origin: `environment ${variable}` };
  const sent = file?.values[name];
  return sent === undefined
    ? { sent, origin: 'default' }
    : { sent, origin: `file ${file?.path ?? ''}` };
}

function checkVariables(environment: SettingsSources['environment']): void {
  const known = [...settingNames.map(variableOf), ...otherVariables];
  const wrong = Object.keys(environment).find(
    (name) => name.startsWith('RANKER_') && !known.includes(name),
  );
  if (wrong !== undefined) {
    throw new SettingsError(`environment ${wrong}: is not known; see "ranker config"`);
  }
}

interface SettingsFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** The file that was named, which must be there, or the one in the data folder if there is one. */
function readFile(named: string | undefined, data: string | undefined): SettingsFile | undefined {
  const isOwn = named === undefined;
  const path = resolve(named ?? join(data ?? settingRules.data.absent, fileName));
  let values: unknown;
  try {
    values = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (isOwn && (code === 'ENOENT' || code === 'ENOTDIR')) return undefined;
    throw new SettingsError(`file ${path}: cannot be read as JSON: ${message}`);
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new SettingsError(`file ${path}: must be an object with named settings`);
  }
  const wrong = Object.keys(values).find((name) => !Object.hasOwn(settingRules, name));
  if (wrong !== undefined) throw new SettingsError(`file ${path}: ${wrong} is not known`);
  if (isOwn && Object.hasOwn(values, 'data')) {
    throw new SettingsError(`file ${path}: data cannot be set in the data folder itself`);
  }
  return { path, values: values as SettingsFile['values'] };
}
