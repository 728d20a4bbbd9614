/** How one setting is read, checked and explained. */
export interface SettingRule<T> {
  /** What stands for its value in help: `<number>`. */
  readonly value: string;
  /** What people are told of it, with its default. */
  readonly about: string;
  /** Completes "must be". */
  readonly rule: string;
  readonly absent: T;
  /** Shown to nobody. */
  readonly isSecret?: true;
  /** What was sent, as JSON or as text; undefined if it breaks the rule. */
  readonly read: (sent: unknown) => T | undefined;
}

const numberPattern = /^-?\d{1,15}(\.\d{1,9})?$/;

/** A number within limits, written as one or as text. */
export function number(
  about: string,
  absent: number,
  { min, max, isWhole = true }: { readonly min: number; readonly max: number; isWhole?: boolean },
): SettingRule<number> {
  return {
    ...{ value: '<number>', about: `${about} (default ${absent})`, absent },
    rule: `${isWhole ? 'an integer' : 'a number'} from ${min} to ${max}`,
    read: (sent) => {
      const isWritten = typeof sent === 'string' && numberPattern.test(sent.trim());
      const found = isWritten || typeof sent === 'number' ? Number(sent) : Number.NaN;
      const isRight = found >= min && found <= max && (!isWhole || Number.isInteger(found));
      return isRight ? found : undefined;
    },
  };
}

/** True or false. */
export function flag(about: string, absent: boolean): SettingRule<boolean> {
  return {
    ...{ value: '<true|false>', about: `${about} (default ${absent})`, absent },
    rule: 'true or false',
    read: (sent) => {
      if (sent === true || sent === 'true') return true;
      return sent === false || sent === 'false' ? false : undefined;
    },
  };
}

/** A text that a pattern finds. */
export function text(
  about: string,
  absent: string,
  more: { readonly value: string; readonly rule: string; readonly pattern: RegExp },
): SettingRule<string> {
  return {
    ...{ value: more.value, about, absent, rule: more.rule },
    read: (sent) => (typeof sent === 'string' && more.pattern.test(sent) ? sent : undefined),
  };
}

/** Words with commas between them, or a list of words. */
export function words(
  about: string,
  more: { readonly value: string; readonly rule: string; readonly pattern: RegExp },
): SettingRule<readonly string[]> {
  return {
    ...{ value: more.value, about, absent: [], rule: more.rule },
    read: (sent) => {
      const list = typeof sent === 'string' ? sent.split(',').map((word) => word.trim()) : sent;
      const isRight = Array.isArray(list) && list.every((word) => isWord(word, more.pattern));
      return isRight ? list.filter((word) => word !== '') : undefined;
    },
  };
}

function isWord(word: unknown, pattern: RegExp): boolean {
  return typeof word === 'string' && (word === '' || pattern.test(word));
}
