import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { inspect } from 'node:util';
import { type Command, Option } from 'commander';
import { didYouMean } from 'spillway/internal';

/** The rule of one setting: how it is read, checked and explained. */
export interface SettingRule<T> {
  /** The placeholder of the value in help: `<number>`. */
  readonly value: string;
  /** The explanation in help, with the default. */
  readonly about: string;
  /** Completes "must be". */
  readonly rule: string;
  /** The value when nobody sets it. */
  readonly absent: T;
  /** The default, if it depends on the data folder. */
  readonly absentIn?: (data: string) => T;
  /** The part that `shown` hides: the whole value, or the password in an address. */
  readonly hides?: 'all' | 'password';
  /** Names a file or a folder; in a settings file, relative to that file. */
  readonly isPath?: true;
  /** Reads JSON or text; undefined if it breaks the rule. */
  readonly read: (sent: unknown) => T | undefined;
}

/** The rule of each setting, in the order in which they are shown. */
export type SettingRules<S> = { readonly [Name in keyof S]: SettingRule<S[Name]> };

/** The type of the settings that a table of rules describes, so that it is not written twice. */
export type SettingsOf<Rules> = {
  readonly [Name in keyof Rules]: Rules[Name] extends SettingRule<infer T> ? T : never;
};

/** The rule of a setting that is a number. */
export interface NumberRule<T> {
  readonly absent: T;
  readonly min: number;
  readonly max: number;
  /** True if it must be an integer. @default true */
  readonly isWhole?: boolean;
}

/** Characters of a wrong value that are shown. */
const valueLengthMax = 100;
const numberPattern = /^[+-]?\d+(\.\d+)?$/;

/** A number within bounds, given as a number or as text. */
export function number<T extends number | undefined>(
  about: string,
  { absent, min, max, isWhole = true }: NumberRule<T>,
): SettingRule<number | T> {
  return {
    value: '<number>',
    about: absent === undefined ? about : `${about} (default ${absent})`,
    rule: `${isWhole ? 'an integer' : 'a number'} from ${min} to ${max}`,
    absent,
    read: (sent) => {
      const isWritten = typeof sent === 'string' && numberPattern.test(sent.trim());
      const found = isWritten ? Number(sent) : sent;
      if (typeof found !== 'number' || !(found >= min && found <= max)) return undefined;
      return isWhole && !Number.isInteger(found) ? undefined : found;
    },
  };
}

/** A setting that is true or false. */
export function flag(about: string, absent: boolean): SettingRule<boolean> {
  return {
    value: '<true|false>',
    about: `${about} (default ${absent})`,
    rule: 'true or false',
    absent,
    read: (sent) => {
      if (sent === true || sent === 'true') return true;
      return sent === false || sent === 'false' ? false : undefined;
    },
  };
}

/** The rule of a setting that is a text of a given form. */
export interface TextRule<T> extends Omit<SettingRule<T>, 'about' | 'read'> {
  /** Matches every valid text; if it matches the empty text, that stands for the default. */
  readonly pattern: RegExp;
}

/** A text that a pattern matches, trimmed; a number is taken as its digits. */
export function text<T extends string | undefined>(
  about: string,
  { pattern, ...rest }: TextRule<T>,
): SettingRule<string | T> {
  return {
    ...(rest as Omit<SettingRule<string | T>, 'about' | 'read'>),
    about,
    read: (sent) => {
      if (typeof sent !== 'string' && typeof sent !== 'number') return undefined;
      const found = String(sent).trim();
      return pattern.test(found) ? found : undefined;
    },
  };
}

/** A setting that is one of some words. */
export function choice<T extends string>(
  about: string,
  {
    words: known,
    ...rest
  }: Pick<SettingRule<T>, 'value' | 'absent'> & {
    readonly words: readonly T[];
  },
): SettingRule<T> {
  return {
    ...rest,
    about,
    rule: `${known.slice(0, -1).join(', ')} or ${known.at(-1)}`,
    read: (sent) => known.find((each) => each === sent),
  };
}

/** A setting that is a list, given as JSON or as words with commas between them. @default none */
export function words(
  about: string,
  { value, rule, pattern }: Pick<TextRule<string>, 'value' | 'rule' | 'pattern'>,
): SettingRule<readonly string[]> {
  const isRight = (word: unknown) =>
    typeof word === 'string' && (word === '' || pattern.test(word));
  return {
    value,
    about,
    rule,
    absent: [],
    read: (sent) => {
      const list = typeof sent === 'string' ? sent.split(',').map((word) => word.trim()) : sent;
      if (!Array.isArray(list) || !list.every(isRight)) return undefined;
      return list.filter((word) => word !== '');
    },
  };
}

/** The error for wrong settings; its message has the origin and the rule of each. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/** The places from which settings are read. */
export interface SettingsSources<Name extends string> {
  /** Settings by name; `config` names a file. */
  readonly flags: Readonly<Partial<Record<Name | 'config', string>>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The settings that were read, and where each came from. */
export interface SettingsReading<S> {
  readonly settings: S;
  /** The origin of each: `flag --port`, `environment FLEET_PORT`, `file <path>`, `default`. */
  readonly origins: Readonly<Record<keyof S, string>>;
}

export interface SettingsReaderOptions<S> {
  /** The program's name in small letters: `fleet` reads `FLEET_PORT` and `<data>/fleet.json`. */
  readonly program: string;
  /** Every setting; the first is `data`, the folder where the program keeps all it has. */
  readonly rules: SettingRules<S>;
  /** Variables with the program's prefix that are no settings. @default none */
  readonly otherVariables?: readonly string[] | undefined;
}

/** A value as it was given, and its origin. */
interface Sent {
  readonly value: unknown;
  readonly origin: string;
  /** The folder that a path in it is relative to. */
  readonly folder: string;
}

/** The flag of a setting: `--public-url` of `publicUrl`. */
export function flagOf(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Reads all settings of a program; one error names every value that breaks its rule. */
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

  /** Reads each setting from its flag, else the environment, else the file, else the default. */
  read({ flags, environment }: SettingsSources<keyof S & string>): SettingsReading<S> {
    this.#checkVariables(environment);
    const sent = new Map<string, Sent>();
    for (const name of this.names) {
      const flag = flags[name];
      const variable = environment[this.variableOf(name)];
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
      return [name, withoutPassword(String(value))];
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
      const isFile = isPath && chosen !== undefined;
      values[name] = isFile ? resolve(each?.folder ?? '.', String(chosen)) : chosen;
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

  /** Reads the file that was named, which must exist, or the one in the data folder if it does. */
  #readFile(path: string, isDefault: boolean): readonly [string, Sent][] {
    let values: unknown;
    try {
      values = JSON.parse(readFileSync(path, 'utf8'));
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (isDefault && (code === 'ENOENT' || code === 'ENOTDIR')) return [];
      // The end of the message shows a piece of the file, in which there may be a secret.
      const why = message.replace(/, \S*".* is not valid JSON$/s, '');
      throw new SettingsError(`file ${path}: cannot be read as JSON: ${why}`);
    }
    if (typeof values !== 'object' || values === null || Array.isArray(values)) {
      throw new SettingsError(`file ${path}: must be an object with named fields`);
    }
    return Object.entries(values).map(([name, value]): [string, Sent] => {
      if (!Object.hasOwn(this.rules, name)) {
        const hint = didYouMean(name, this.names);
        const shown = /^[\w.-]{1,100}$/.test(name) ? name : shortened(name);
        throw new SettingsError(`file ${path}: ${shown} is not known${hint}`);
      }
      if (isDefault && name === 'data') {
        const why = 'since this file is looked for in the data folder';
        throw new SettingsError(`file ${path}: data cannot be set here, ${why}`);
      }
      return [name, { value, origin: `file ${path}`, folder: dirname(path) }];
    });
  }
}

/** An address without its password, which may have an @ in it, or be a parameter. */
function withoutPassword(address: string): string {
  const hidden = address.replace(/^([\w+.-]+:(?:\/\/)?[^:@/]*):.*@/s, '$1:(hidden)@');
  return hidden.replace(/([?&]password=)[^&]*/gi, '$1(hidden)');
}

/** A value as one short line. */
function shortened(value: unknown): string {
  const text = inspect(value, { depth: 0, compact: true, breakLength: Infinity });
  return text.length <= valueLengthMax ? text : `${text.slice(0, valueLengthMax)}…`;
}

/** Gives a command all settings as flags, and `--config`; help shows all of them or only some. */
export function withSettings<S extends { readonly data: string }>(
  command: Command,
  reader: SettingsReader<S>,
  shown: readonly string[] | 'all' = 'all',
): Command {
  for (const name of reader.names) {
    const { value, about } = reader.rules[name];
    const option = new Option(`${flagOf(name)} ${value}`, about).helpGroup('Settings:');
    command.addOption(shown === 'all' || shown.includes(name) ? option : option.hideHelp());
  }
  const about = `settings as JSON (default <data>/${reader.program}.json)`;
  return command.addOption(new Option('--config <file>', about).helpGroup('Settings:'));
}

/** Reads the settings of a command that has its flags by {@link withSettings}. */
export function settingsOf<S extends { readonly data: string }>(
  command: Command,
  reader: SettingsReader<S>,
): SettingsReading<S> {
  const flags = command.opts() as SettingsSources<keyof S & string>['flags'];
  return reader.read({ flags, environment: process.env });
}
