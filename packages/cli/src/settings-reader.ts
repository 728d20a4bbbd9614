import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { didYouMean } from 'spillway/internal';
import type { SettingRule, SettingRules } from './setting-rules.ts';

/** Settings that cannot be used, each with the place it came from and its rule. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

export interface SettingsSources<Name extends string> {
  /** By the name of the setting; `config` names a file. */
  readonly flags: Readonly<Partial<Record<Name | 'config', string>>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export interface SettingsReading<S> {
  readonly settings: S;
  /** Where each came from: `flag --port`, `environment FLEET_PORT`, `file <path>`, `default`. */
  readonly origins: Readonly<Record<keyof S, string>>;
}

export interface SettingsReaderOptions<S> {
  /** The program's name in small letters: `fleet` reads `FLEET_PORT` and `<data>/fleet.json`. */
  readonly program: string;
  /** Every setting; the first is `data`, the folder where the program keeps all it has. */
  readonly rules: SettingRules<S>;
  /** Variables with the program's prefix that are no settings (default none). */
  readonly otherVariables?: readonly string[] | undefined;
}

/** A value as it was given, and where. */
interface Sent {
  readonly value: unknown;
  readonly origin: string;
  /** From where a path in it is meant. */
  readonly folder: string;
}

/** The flag of a setting: `--public-url` of `publicUrl`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Reads all settings of a program; what is wrong with them is told all at once. */
export class SettingsReader<S extends { readonly data: string }> {
  readonly program: string;
  readonly rules: SettingRules<S>;
  readonly names: readonly (keyof S & string)[];
  readonly #prefix: string;
  readonly #otherVariables: readonly string[];

  constructor({ program, rules, otherVariables = [] }: SettingsReaderOptions<S>) {
    this.program = program;
    this.rules = rules;
    this.names = Object.keys(rules) as (keyof S & string)[];
    assert(this.names[0] === 'data', 'rules: the first must be data, others may lie in it');
    this.#prefix = `${program.toUpperCase()}_`;
    this.#otherVariables = [this.variableOf('config'), ...otherVariables];
  }

  /** The variable of a setting: `FLEET_PUBLIC_URL` of `publicUrl`. */
  variableOf(name: string): string {
    return this.#prefix + name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
  }

  /** A flag comes before the environment, that before the file, and that before the default. */
  read({ flags, environment }: SettingsSources<keyof S & string>): SettingsReading<S> {
    this.#checkVariables(environment);
    const sent = new Map<string, Sent>();
    for (const name of this.names) {
      const [flag, variable] = [flags[name], environment[this.variableOf(name)]];
      const origin =
        flag === undefined ? `environment ${this.variableOf(name)}` : `flag ${flagOf(name)}`;
      const value = flag ?? variable;
      if (value !== undefined) sent.set(name, { value, origin, folder: '.' });
    }
    const named = flags.config ?? environment[this.variableOf('config')];
    const data = String(sent.get('data')?.value ?? this.rules.data.absent);
    const path = resolve(named ?? join(data, `${this.program}.json`));
    for (const [name, each] of this.#readFile(path, named === undefined)) {
      if (!sent.has(name)) sent.set(name, each);
    }
    return this.#valuesOf(sent);
  }

  /** The settings as they may be shown to anybody. */
  shown(settings: S): Record<keyof S & string, unknown> {
    const shown = this.names.map((name): [string, unknown] => {
      const value = settings[name] ?? '';
      const { hides } = this.rules[name];
      if (value === '' || hides === undefined) return [name, value];
      if (hides === 'all') return [name, '(hidden)'];
      return [name, String(value).replace(/^(\w+:\/\/[^:@/]*):[^@]*@/, '$1:(hidden)@')];
    });
    return Object.fromEntries(shown) as Record<keyof S & string, unknown>;
  }

  #valuesOf(sent: ReadonlyMap<string, Sent>): SettingsReading<S> {
    const faults: string[] = [];
    const values: Record<string, unknown> = {};
    const origins: Record<string, string> = {};
    for (const name of this.names) {
      const { read, rule, absent, absentIn, hides, isPath } = this.rules[
        name
      ] as SettingRule<unknown>;
      const each = sent.get(name);
      const value = each === undefined ? '' : read(each.value);
      if (each !== undefined && value === undefined) {
        const got = hides === undefined ? shortened(each.value) : 'something else';
        faults.push(`${name} (${each.origin}): must be ${rule}, got ${got}`);
      }
      const isUnset = value === undefined || value === '';
      const chosen = isUnset ? (absentIn?.(String(values.data)) ?? absent) : value;
      values[name] = isPath ? resolve(each?.folder ?? '.', String(chosen)) : chosen;
      origins[name] = each?.origin ?? 'default';
    }
    if (faults.length > 0) throw new SettingsError(faults.join('\n'));
    return { settings: values as S, origins: origins as Record<keyof S, string> };
  }

  #checkVariables(environment: Readonly<Record<string, string | undefined>>): void {
    const known = [...this.names.map((name) => this.variableOf(name)), ...this.#otherVariables];
    for (const name of Object.keys(environment)) {
      if (!name.startsWith(this.#prefix) || known.includes(name)) continue;
      throw new SettingsError(`environment ${name}: is not known${didYouMean(name, known)}`);
    }
  }

  /** The file that was named, which must be there, or the one in the data folder if it is. */
  #readFile(path: string, isOwn: boolean): readonly [string, Sent][] {
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
    return Object.entries(values).map(([name, value]): [string, Sent] => {
      if (!Object.hasOwn(this.rules, name)) {
        const hint = didYouMean(name, this.names);
        throw new SettingsError(`file ${path}: ${name} is not known${hint}`);
      }
      if (isOwn && name === 'data') {
        const why = 'since this file is looked for in the data folder';
        throw new SettingsError(`file ${path}: data cannot be set here, ${why}`);
      }
      return [name, { value, origin: `file ${path}`, folder: dirname(path) }];
    });
  }
}

function shortened(value: unknown): string {
  return inspect(value, { depth: 0, maxStringLength: 80, breakLength: Infinity });
}
