/**
 * A rule for values, as a JSON schema; `title` completes "is not". The type of the values is
 * derived from it.
 */
export interface Rule<T = unknown> {
  readonly title: string;
  readonly [keyword: string]: unknown;
  /** Never set: it only carries the type. */
  readonly value?: T;
}

/** The type of the values that a rule lets through. */
export type ValueOf<R> = R extends Rule<infer T> ? T : never;

/** The fields of a document; optional ones may be absent. */
export type Shape = Readonly<Record<string, Rule>>;

interface Optional<T> extends Rule<T> {
  readonly isOptional: true;
}

type OptionalIn<S> = { [Name in keyof S]: S[Name] extends Optional<unknown> ? Name : never };

/** The type of documents with these fields. */
export type DocumentOf<S, Lacking extends keyof S = OptionalIn<S>[keyof S]> = {
  [Name in Exclude<keyof S, Lacking>]: ValueOf<S[Name]>;
} & { [Name in Lacking]?: ValueOf<S[Name]> };

export const text: Rule<string> = { title: 'a string', type: 'string' };
export const flag: Rule<boolean> = { title: 'a boolean', type: 'boolean' };
export const decimal: Rule<number> = { title: 'a number', type: 'number' };

/** UNIX milliseconds that a date can have. */
export const moment: Rule<number> = momentIn(1);

/** A time in a unit of this many milliseconds. */
export function momentIn(unitMs: number): Rule<number> {
  return { title: 'a time', type: 'number', minimum: 0, maximum: 8.64e15 / unitMs };
}

export function whole(minimum: number): Rule<number> {
  const bounds = { minimum, maximum: Number.MAX_SAFE_INTEGER };
  return { title: `an integer from ${minimum}`, type: 'integer', ...bounds };
}

export function pattern({ source }: RegExp, title: string): Rule<string> {
  return { title, type: 'string', pattern: source };
}

export function oneOf<const T extends string>(...words: readonly T[]): Rule<T> {
  return { title: `one of ${words.join(', ')}`, enum: words };
}

/** A list, of exactly `length` values if that is given. */
export function list<T>(items: Rule<T>, length?: number): Rule<T[]> {
  const title = length === undefined ? 'a list' : `a list of ${length}`;
  const size = length === undefined ? {} : { minItems: length, maxItems: length };
  return { title, type: 'array', items, ...size };
}

export function document<S extends Shape>(properties: S, title = 'a document') {
  const names = Object.keys(properties).filter((name) => properties[name]?.isOptional !== true);
  const rule: Rule<DocumentOf<S>> = { title, type: 'object', properties, required: names };
  return rule;
}

/** Fields that a document must have. */
export function required<T, Name extends string>(rule: Rule<T>, ...names: readonly Name[]) {
  return Object.fromEntries(names.map((name) => [name, rule])) as Record<Name, Rule<T>>;
}

export function optional<T, Name extends string>(rule: Rule<T>, ...names: readonly Name[]) {
  return required({ ...rule, isOptional: true }, ...names) as Record<Name, Optional<T>>;
}

/** Fields that get this value where a record of fishtest lacks them. */
export function orElse<T, Name extends string>(
  value: NoInfer<T>,
  rule: Rule<T>,
  ...names: readonly Name[]
) {
  const lenient = { ...rule, default: value, isOptional: true };
  return required(lenient, ...names) as Record<Name, Rule<T>>;
}
