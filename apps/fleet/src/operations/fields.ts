import { inspect } from 'node:util';
import { SpillwayError } from 'spillway';
import { didYouMean } from 'spillway-cli';
import { isRecord } from '../protocol/patterns.ts';

/** A fault of one field of an input. */
export interface FieldFault {
  /** The path as it was sent: `tc`, `sprt.elo0`. */
  readonly field: string;
  readonly message: string;
}

/** Lists all faults of an input by field. */
export class InputError extends SpillwayError {
  readonly faults: readonly FieldFault[];

  constructor(faults: readonly FieldFault[]) {
    const lines = faults.map(({ field, message }) => `${field || 'input'}: ${message}`);
    super({ code: 'INPUT_INVALID', status: 422, retryable: false }, lines.join('\n'));
    this.faults = faults;
  }
}

export interface FieldOptions<T> {
  /** A line of help. @default the rule */
  readonly about?: string | undefined;
  /** Completes "must be". */
  readonly rule: string;
  /** @default every value of the kind is right */
  readonly holds?: ((value: T) => boolean) | undefined;
  /** The value of an absent field. @default none: the field is required */
  readonly absent?: T | undefined;
  /** The flag of the command, like `--user <name>`. @default made of the field's name */
  readonly flag?: string | undefined;
}

/** One field of an input: its rule, its help and how its value is read. */
export interface Field<T> extends FieldOptions<T> {
  readonly kind: 'text' | 'secret' | 'integer' | 'number' | 'flag' | 'words' | 'any';
  readonly isOptional: boolean;
  /** The value that stands for a wrong one until the faults are thrown. */
  readonly none: T;
  /** Gives undefined for a value of another kind. */
  readonly parse: (sent: unknown) => T | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: a table has fields of all types.
export type Fields = Readonly<Record<string, Field<any>>>;

/** The type of an input with these fields. */
export type InputOf<F> = {
  readonly [Name in keyof F]: F[Name] extends Field<infer T> ? T : never;
};

const integerPattern = /^[+-]?\d{1,15}$/;
const numberPattern = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

type Maker<T> = (options: FieldOptions<T>) => Field<T>;

function maker<T>(kind: Field<T>['kind'], none: T, parse: Field<T>['parse']): Maker<T> {
  return (options) => ({ ...options, kind, isOptional: false, none, parse });
}

export const text: Maker<string> = maker('text', '', (sent) => {
  if (typeof sent === 'number') return String(sent);
  return typeof sent === 'string' ? sent.trim() : undefined;
});

/** Text that is taken as it is, and never shown. */
export const secret: Maker<string> = maker('secret', '', (sent) => {
  return typeof sent === 'string' ? sent : undefined;
});

/** A whole number, which may be written as text. */
export const integer: Maker<number> = maker('integer', 0, (sent) => {
  const isWhole = Number.isSafeInteger(sent) || integerPattern.test(written(sent));
  return isWhole ? Number(sent) : undefined;
});

/** An {@link integer} within bounds. */
export function integerIn(
  min: number,
  max: number,
  options: Partial<FieldOptions<number>> = {},
): Field<number> {
  const holds = (value: number) => value >= min && value <= max;
  return integer({ rule: `an integer from ${min} to ${max}`, holds, ...options });
}

export const number: Maker<number> = maker('number', 0, (sent) => {
  const isNumber = Number.isFinite(sent) || numberPattern.test(written(sent));
  const value = isNumber ? Number(sent) : NaN;
  return Number.isFinite(value) ? value : undefined;
});

export function flag(absent: boolean, options: { about?: string; flag?: string }): Field<boolean> {
  const make = maker('flag', absent, (sent) => {
    if (sent === true || sent === 'true') return true;
    return sent === false || sent === 'false' ? false : undefined;
  });
  return make({ ...options, rule: 'true or false', absent });
}

/** A list of words; as text, with commas between them. */
export const words: Maker<readonly string[]> = maker<readonly string[]>('words', [], (sent) => {
  const list = typeof sent === 'string' ? sent.split(',').map((word) => word.trim()) : sent;
  const isList = Array.isArray(list) && list.every((word) => typeof word === 'string');
  return isList ? list.filter((word) => word !== '') : undefined;
});

/** A value that is checked elsewhere; a command has its own way to give it. */
export const any: Field<unknown> = {
  kind: 'any',
  rule: 'any value',
  isOptional: true,
  none: undefined,
  parse: (sent) => sent,
};

/** A copy of the field that may be left out. */
export function optional<T>(field: Field<T>): Field<T | undefined> {
  const { holds } = field;
  return {
    ...field,
    absent: undefined,
    none: undefined,
    isOptional: true,
    holds: (value) => value !== undefined && (holds?.(value) ?? true),
  };
}

/** Reads all fields; a wrong one adds to the faults and gets the value of an absent one. */
export function readFields<F extends Fields>(
  fields: F,
  input: unknown,
  faults: FieldFault[],
  prefix = '',
): InputOf<F> {
  const sent = isRecord(input) ? input : {};
  if (sent !== input) {
    const field = prefix.replace(/\.$/, '');
    faults.push({ field, message: 'must be an object with named fields' });
  }
  for (const name of Object.keys(sent)) {
    if (Object.hasOwn(fields, name)) continue;
    const hint = didYouMean(name, Object.keys(fields));
    faults.push({ field: `${prefix}${name}`, message: `is not known${hint}` });
  }
  const read = Object.entries(fields).map(([name, field]) => {
    const complain = (message: string) => faults.push({ field: `${prefix}${name}`, message });
    return [name, fieldValue(field, Object.hasOwn(sent, name) ? sent[name] : undefined, complain)];
  });
  return Object.fromEntries(read);
}

function fieldValue(
  field: Field<unknown>,
  sent: unknown,
  complain: (message: string) => void,
): unknown {
  const { kind, rule, holds, absent, isOptional, none } = field;
  const isSecret = kind === 'secret';
  if (sent === undefined && !isSecret) {
    if (absent === undefined && !isOptional) complain(`is required: ${rule}`);
    return absent ?? none;
  }
  const value = field.parse(sent);
  if (value !== undefined && (holds?.(value) ?? true)) return value;
  const got = inspect(sent, { depth: 0, maxStringLength: 80, breakLength: Infinity });
  complain(isSecret ? `must be ${rule}` : `must be ${rule}, got ${got}`);
  return absent ?? none;
}

/** Throws {@link InputError} if there is any fault. */
export function demandFaultless(faults: readonly FieldFault[]): void {
  if (faults.length > 0) throw new InputError(faults);
}

function written(sent: unknown): string {
  return typeof sent === 'string' ? sent.trim() : '';
}
