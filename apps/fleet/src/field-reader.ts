import { inspect } from 'node:util';
import { SpillwayError } from 'spillway';
import { didYouMean } from 'spillway-cli';

/** What is wrong with one field of what a person sent. */
export interface FieldFault {
  /** As it is named in what was sent: `tc`, `sprt.elo0`. */
  readonly field: string;
  readonly message: string;
}

/** Says all that is wrong with what a person sent, field by field. */
export class InputError extends SpillwayError {
  readonly faults: readonly FieldFault[];

  constructor(faults: readonly FieldFault[]) {
    const lines = faults.map(({ field, message }) => `${field || 'input'}: ${message}`);
    super({ code: 'INPUT_INVALID', status: 422, retryable: false }, lines.join('\n'));
    this.faults = faults;
  }
}

interface Rule<T> {
  /** Completes "must be". */
  readonly rule: string;
  readonly holds: (value: T) => boolean;
  /** What an absent field stands for; without it the field is required. */
  readonly absent?: T | undefined;
}

const integerPattern = /^[+-]?\d{1,15}$/;
const numberPattern = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/**
 * Reads fields that come from JSON, from a form or from flags: a number may be written as text.
 * It collects all that is wrong, and goes on with whatever stands for an absent field.
 */
export class FieldReader {
  readonly #input: Readonly<Record<string, unknown>>;
  readonly #prefix: string;
  readonly faults: FieldFault[];

  constructor(input: unknown, prefix = '', faults: FieldFault[] = []) {
    const isObject = typeof input === 'object' && input !== null && !Array.isArray(input);
    this.faults = faults;
    this.#prefix = prefix;
    this.#input = isObject ? (input as Record<string, unknown>) : {};
    if (!isObject) this.fault('', 'must be an object with named fields');
  }

  fault(name: string, message: string): void {
    const field = name === '' ? this.#prefix.replace(/\.$/, '') : `${this.#prefix}${name}`;
    this.faults.push({ field, message });
  }

  /** Throws {@link InputError} if anything was wrong so far. */
  check(): void {
    if (this.faults.length > 0) throw new InputError(this.faults);
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#input, name) && this.#input[name] !== undefined;
  }

  /** Complains about every field that is none of these. */
  only(known: readonly string[]): void {
    for (const name of Object.keys(this.#input)) {
      if (!known.includes(name)) this.fault(name, `is not known${didYouMean(name, known)}`);
    }
  }

  /** A field as it was sent, for whoever checks it elsewhere. */
  value(name: string): unknown {
    return this.#input[name];
  }

  /** The fields of an object in this one. */
  inner(name: string): FieldReader {
    return new FieldReader(this.#input[name], `${this.#prefix}${name}.`, this.faults);
  }

  text(name: string, rule: Rule<string>): string {
    return this.#read(name, '', rule, (sent) => {
      if (typeof sent === 'number') return String(sent);
      return typeof sent === 'string' ? sent.trim() : undefined;
    });
  }

  /** Text that is taken as it is, and shown to nobody. */
  secret(name: string, { rule, holds }: Rule<string>): string {
    const sent = this.#input[name];
    if (typeof sent === 'string' && holds(sent)) return sent;
    this.fault(name, `must be ${rule}`);
    return '';
  }

  integer(name: string, rule: Rule<number>): number {
    return this.#read(name, 0, rule, (sent) => {
      const isWhole = Number.isSafeInteger(sent) || integerPattern.test(written(sent));
      return isWhole ? Number(sent) : undefined;
    });
  }

  number(name: string, rule: Rule<number>): number {
    return this.#read(name, 0, rule, (sent) => {
      const isNumber = Number.isFinite(sent) || numberPattern.test(written(sent));
      const number = isNumber ? Number(sent) : NaN;
      return Number.isFinite(number) ? number : undefined;
    });
  }

  flag(name: string, absent: boolean): boolean {
    const rule = { rule: 'true or false', holds: () => true, absent };
    return this.#read(name, absent, rule, (sent) => {
      if (sent === true || sent === 'true') return true;
      return sent === false || sent === 'false' ? false : undefined;
    });
  }

  /** A list of words; as text, with commas between them. */
  words(name: string, rule: Rule<readonly string[]>): readonly string[] {
    return this.#read(name, [], rule, (sent) => {
      const list = typeof sent === 'string' ? sent.split(',').map((word) => word.trim()) : sent;
      const isList = Array.isArray(list) && list.every((word) => typeof word === 'string');
      return isList ? list.filter((word) => word !== '') : undefined;
    });
  }

  #read<T>(name: string, none: T, rule: Rule<T>, parse: (sent: unknown) => T | undefined): T {
    if (!this.has(name)) {
      if (rule.absent === undefined) this.fault(name, `is required: ${rule.rule}`);
      return rule.absent ?? none;
    }
    const sent = this.#input[name];
    const value = parse(sent);
    if (value !== undefined && rule.holds(value)) return value;
    const got = inspect(sent, { depth: 0, maxStringLength: 80, breakLength: Infinity });
    this.fault(name, `must be ${rule.rule}, got ${got}`);
    return rule.absent ?? none;
  }
}

function written(sent: unknown): string {
  return typeof sent === 'string' ? sent.trim() : '';
}
