import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { didYouMean } from './nearest.ts';
import {
  type SettingName,
  type SettingRule,
  type Settings,
  settingRules,
} from './setting-rules.ts';

export const settingNames: readonly SettingName[] = Object.keys(settingRules) as SettingName[];

export interface SettingsSources {
  /** By the name of the setting; `config` names a file. */
  readonly flags: Readonly<Partial<Record<SettingName | 'config', string>>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export interface SettingsReading {
  readonly settings: Settings;
  /** Where each came from: `flag --port`, `environment INGEST_PORT`, `file <path>`, `default`. */
  readonly origins: Readonly<Record<SettingName, string>>;
}

/** Settings that cannot be used, each with the place it came from and its rule. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const fileName = 'ingest.json';
const prefix = 'INGEST_';

export function flagOf(name: SettingName | 'config'): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function variableOf(name: SettingName | 'config'): string {
  return `${prefix}${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** A value as it was given, and where. */
interface Sent {
  readonly value: unknown;
  readonly origin: string;
  /** From where a path in it is meant. */
  readonly folder: string;
}

/** A flag comes before the environment, that before the file, and that before the default. */
export function readSettings({ flags, environment }: SettingsSources): SettingsReading {
  checkVariables(environment);
  const sent = new Map<SettingName, Sent>();
  for (const name of settingNames) {
    const [flag, variable] = [flags[name], environment[variableOf(name)]];
    const origin = flag === undefined ? `environment ${variableOf(name)}` : `flag ${flagOf(name)}`;
    const value = flag ?? variable;
    if (value !== undefined) sent.set(name, { value, origin, folder: '.' });
  }
  const named = flags.config ?? environment[variableOf('config')];
  const own = join(String(sent.get('data')?.value ?? settingRules.data.absent), fileName);
  for (const [name, each] of readFile(resolve(named ?? own), named === undefined)) {
    if (!sent.has(name)) sent.set(name, each);
  }
  return valuesOf(sent);
}

function valuesOf(sent: ReadonlyMap<SettingName, Sent>): SettingsReading {
  const faults: string[] = [];
  const values: Partial<Record<SettingName, unknown>> = {};
  const origins: Partial<Record<SettingName, string>> = {};
  for (const name of settingNames) {
    const { read, rule, absent, isPath, secret } = settingRules[name] as SettingRule<unknown>;
    const each = sent.get(name);
    origins[name] = each?.origin ?? 'default';
    const value = each === undefined ? undefined : read(each.value);
    if (each !== undefined && value === undefined) {
      const got = secret ? '' : `, got ${inspect(each.value, { depth: 0, maxStringLength: 80 })}`;
      faults.push(`${name} (${each.origin}): must be ${rule}${got}`);
    }
    const chosen = value ?? (typeof absent === 'function' ? absent(String(values.data)) : absent);
    values[name] = isPath ? resolve(each?.folder ?? '.', String(chosen)) : chosen;
  }
  if (faults.length > 0) throw new SettingsError(faults.join('\n'));
  return { settings: values as Settings, origins: origins as Record<SettingName, string> };
}

/** The settings as they may be shown to anybody. */
export function shownSettings(settings: Settings): Record<SettingName, unknown> {
  const shown = settingNames.map((name): [string, unknown] => {
    const value = settings[name];
    const { secret } = settingRules[name] as SettingRule<unknown>;
    if (value === undefined || !secret) return [name, value ?? ''];
    if (name !== 'store') return [name, '(hidden)'];
    return [name, settings.store.replace(/^(\w+:\/\/[^:@/]*):[^@]*@/, '$1:(hidden)@')];
  });
  return Object.fromEntries(shown) as Record<SettingName, unknown>;
}

function checkVariables(environment: SettingsSources['environment']): void {
  const known = [...settingNames, 'config' as const].map(variableOf);
  for (const name of Object.keys(environment)) {
    if (!name.startsWith(prefix) || known.includes(name)) continue;
    throw new SettingsError(`environment ${name}: is not known${didYouMean(name, known)}`);
  }
}

/** The file that was named, which must be there, or the one in the data folder if there is one. */
function readFile(path: string, isOwn: boolean): readonly [SettingName, Sent][] {
  let values: unknown;
  try {
    values = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (isOwn && (code === 'ENOENT' || code === 'ENOTDIR')) return [];
    throw new SettingsError(`file ${path}: cannot be read as JSON: ${message}`);
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new SettingsError(`file ${path}: must be an object with named fields`);
  }
  return Object.entries(values).map(([name, value]): [SettingName, Sent] => {
    if (!Object.hasOwn(settingRules, name)) {
      const hint = didYouMean(name, settingNames);
      throw new SettingsError(`file ${path}: ${name} is not known${hint}`);
    }
    if (isOwn && name === 'data') {
      const why = 'since this file is looked for in the data folder';
      throw new SettingsError(`file ${path}: data cannot be set here, ${why}`);
    }
    return [name as SettingName, { value, origin: `file ${path}`, folder: dirname(path) }];
  });
}
