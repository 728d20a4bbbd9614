/** How one setting is read, checked and explained. */
export interface SettingRule<T> {
  /** What stands for its value in help: `<number>`. */
  readonly value: string;
  /** What people are told of it, with its default. */
  readonly about: string;
  /** Completes "must be". */
  readonly rule: string;
  /** What it is when nobody sets it. */
  readonly absent: T;
  /** Instead of `absent`, where the default lies in the data folder. */
  readonly absentIn?: (data: string) => T;
  /** What is shown to nobody: all of it, or the password in an address. */
  readonly hides?: 'all' | 'password';
  /** It names a file or a folder; in a settings file, from where that lies. */
  readonly isPath?: true;
  /** What was sent, as JSON or as text; undefined if it breaks the rule. */
  readonly read: (sent: unknown) => T | undefined;
}

/** The rule of each setting, in the order in which they are shown. */
export type SettingRules<S> = { readonly [Name in keyof S]: SettingRule<S[Name]> };

export interface NumberRule<T> {
  readonly absent: T;
  readonly min: number;
  readonly max: number;
  /** Whether it is an integer (default true). */
  readonly isWhole?: boolean;
}

const numberPattern = /^[+-]?\d+(\.\d+)?$/;

/** A number within limits, written as one or as text; help tells its default, if it has one. */
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

/** True or false; help tells its default. */
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

export interface TextRule<T> extends Omit<SettingRule<T>, 'about' | 'read'> {
  /** Found in every right text; where it finds the empty text, that stands for the default. */
  readonly pattern: RegExp;
}

/** A text that a pattern finds, without the spaces around it; of a number, its digits. */
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

/** One of some words. */
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

/** Words with commas between them, or a list of words; none by default. */
export function words(
  about: string,
  { value, rule, pattern }: Pick<TextRule<string>, 'value' | 'rule' | 'pattern'>,
): SettingRule<readonly string[]> {
  const isRight = (word: unknown) =>
    typeof word === 'string' && (word === '' || pattern.test(word));
  return {
    ...{ value, about, rule, absent: [] },
    read: (sent) => {
      const list = typeof sent === 'string' ? sent.split(',').map((word) => word.trim()) : sent;
      if (!Array.isArray(list) || !list.every(isRight)) return undefined;
      return list.filter((word) => word !== '');
    },
  };
}
