import { assertionError, check, misuse, range } from './check.ts';

/** The known name that is most similar to a misspelt one; undefined if none is similar. */
export function nearest(wrong: string, known: Iterable<string>): string | undefined {
  return [...known]
    .map((name) => ({ name, distance: editDistance(plain(wrong), plain(name)) }))
    .filter(({ name, distance }) => distance <= Math.max(2, name.length / 3))
    .sort((a, b) => a.distance - b.distance)[0]?.name;
}

/** The end of a message about an unknown name: `; did you mean limit?`, or nothing. */
export function didYouMean(wrong: string, known: Iterable<string>): string {
  const name = nearest(wrong, known);
  return name === undefined ? '' : `; did you mean ${name}?`;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, '');
}

/** The number of letters to add, remove or replace to turn one word into the other. */
function editDistance(from: string, to: string): number {
  // Longer ones are never near, and comparing them costs the product of their lengths.
  if (Math.max(from.length, to.length) > 100) return Infinity;
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}

/** The rule of one option, with the value of an absent one unless it is required. */
export interface Rule<T> {
  /** Completes "must be". */
  readonly rule: string;
  readonly holds: (value: unknown) => boolean;
  readonly absent: T | undefined;
  readonly isRequired: boolean;
}

/** A rule of an option that stays undefined when it is absent. */
export type MaybeRule<T> = Rule<T> & { readonly staysAbsent: true };

/** A rule for each option of an interface; the value types are those of the interface. */
export type Rules<Options> = {
  readonly [Name in keyof Options]-?: Rule<Exclude<Options[Name], undefined>>;
};

/** The options of an interface with the defaults filled in: only `maybe` ones can be undefined. */
export type Settled<Options, R> = {
  readonly [Name in keyof Options]-?: R[Name & keyof R] extends MaybeRule<unknown>
    ? Options[Name] | undefined
    : Exclude<Options[Name], undefined>;
};

/** The options of an interface with a value for each. */
export type Filled<Options> = {
  readonly [Name in keyof Options]-?: Exclude<Options[Name], undefined>;
};

/**
 * Checks all options of `owner` and fills in the defaults. Wrong use is an AssertionError with the
 * owner, the option, its rule and the value; one for an unknown option names those there are.
 */
export function settle<Options extends object, const R extends Rules<Options>>(
  owner: string,
  options: Options,
  rules: R,
): Settled<Options, R> {
  const isObject = typeof options === 'object' && options !== null;
  check(isObject, `${owner}: options`, 'an object', options);
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(rules, name)) continue;
    const known = Object.keys(rules);
    const hint = didYouMean(name, known) || `; there are: ${known.join(', ')}`;
    throw assertionError(`${owner}: ${name}: is not an option${hint}`, name);
  }
  const settled: Record<string, unknown> = {};
  for (const [name, { rule, holds, absent, isRequired }] of Object.entries<Rule<unknown>>(rules)) {
    const value = (options as Readonly<Record<string, unknown>>)[name];
    const isRight = value === undefined ? !isRequired : holds(value);
    if (!isRight) throw misuse(`${owner}: ${name}`, rule, value);
    settled[name] = value === undefined ? absent : value;
  }
  return settled as Settled<Options, R>;
}

/** An integer between the bounds, both included. */
export function integer(min: number, max: number = Infinity): Rule<number> {
  const { holds } = number(min, max);
  const rule = range('an integer', min, max);
  return required(rule, (value) => Number.isSafeInteger(value) && holds(value));
}

/** A number between the bounds, both included; Infinity unless there is an upper bound. */
export function number(min: number, max: number = Infinity): Rule<number> {
  const rule = range('a number', min, max);
  return required(rule, (value) => typeof value === 'number' && value >= min && value <= max);
}

/** A number above 0; Infinity unless there is an upper bound. */
export function positive(max: number = Infinity): Rule<number> {
  const rule = max === Infinity ? 'a number above 0' : `a number above 0, up to ${max}`;
  return required(rule, (value) => typeof value === 'number' && value > 0 && value <= max);
}

/** A string with at least one character. */
export const word: Rule<string> = required('a string that is not empty', (value) => {
  return typeof value === 'string' && value !== '';
});
export const flag: Rule<boolean> = required('true or false', (value) => typeof value === 'boolean');
export const callback: Rule<never> = required('a function', (value) => typeof value === 'function');

/** Any value but undefined; its type is left to the compiler. */
export const anything: Rule<never> = required('given', () => true);

export function oneOf<const T>(...values: readonly T[]): Rule<T> {
  const names = values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value)));
  return required(names.join(' or '), (value) => values.includes(value as T));
}

/** A value that passes a test of the caller; `rule` completes "must be": `a Lane`. */
export function instance(test: (value: unknown) => boolean, rule: string): Rule<never> {
  return required(rule, test);
}

/** An object that has these methods; `rule` completes "must be": `a Clock`. */
export function having(rule: string, ...methods: readonly string[]): Rule<never> {
  return required(rule, (value) => {
    return methods.every((method) => typeof Object(value)[method] === 'function');
  });
}

/** Options of a part of their own, which checks what is in them. */
export const nested: Rule<never> = required('an object', (value) => {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
});
export const clockRule: Rule<never> = having('a Clock, with now() and after()', 'now', 'after');
export const runnerRule: Rule<never> = having('a runner, with run()', 'run');
export const laneRule: Rule<never> = having('a Lane', 'enter', 'run');
export const storeRule: Rule<never> = having('a Store, with read() and commit()', 'read', 'commit');

/** The rule, with a default for an absent option. */
export function or<T>(rule: Rule<never>, absent: T): Rule<T>;
export function or<T>(rule: Rule<T>, absent: NoInfer<T>): Rule<T>;
export function or<T>(rule: Rule<T>, absent: T): Rule<T> {
  return { ...rule, absent, isRequired: false };
}

/** The rule, for an option that may be absent and has no default. */
export function maybe<T>(rule: Rule<T>): MaybeRule<T> {
  return { ...rule, isRequired: false, staysAbsent: true };
}

function required<T>(rule: string, holds: (value: unknown) => boolean): Rule<T> {
  return { rule, holds, absent: undefined, isRequired: true };
}
