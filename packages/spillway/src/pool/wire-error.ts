import { misuse, shown } from '../base/check.ts';

/** Causes and inner errors that are sent with an error at most: errors may contain themselves. */
const innerMax = 32;

const errorTypes = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];

/** A thrown value in a form that can be copied: cloning an error loses its name and fields. */
export type WireError =
  | { readonly isError: false; readonly value: unknown }
  | {
      readonly isError: true;
      /** The name of the class that the other side makes it of. */
      readonly type: string;
      readonly message: string;
      readonly fields: Readonly<Record<string, unknown>>;
      readonly cause: WireError | undefined;
      readonly errors: readonly WireError[] | undefined;
    };

/** Posts a message with an error in it: whole if it can be copied, else without what cannot. */
export function postError(thrown: unknown, post: (error: WireError) => void): void {
  for (const isBare of [false, true]) {
    try {
      post(packError(thrown, isBare));
      return;
    } catch {
      // Copying fails, or code of the value itself throws: a getter, a proxy, `toString`.
    }
  }
  post(packError(new Error('what was thrown cannot be read'), true));
}

/** Packs a thrown value; with `isBare` only what can always be copied. */
function packError(thrown: unknown, isBare: boolean, budget = { left: innerMax }): WireError {
  if (!(thrown instanceof Error)) {
    const isSafe = !isBare || Object(thrown) !== thrown;
    if (isSafe && typeof thrown !== 'symbol') return { isError: false, value: thrown };
    return packError(new Error(`what was thrown cannot be copied: ${shown(thrown)}`), true);
  }
  const fields: Record<string, unknown> = {};
  for (const key of new Set(['name', 'stack', ...Object.keys(thrown)])) {
    const value = read(thrown, key);
    const isFlat = value === null || typeof value !== 'object';
    const isData = typeof value !== 'function' && typeof value !== 'symbol';
    if (isData && (isFlat || !isBare)) fields[key] = value;
  }
  const inner = (one: unknown): WireError | undefined => {
    budget.left -= 1;
    return budget.left < 0 ? undefined : packError(one, isBare, budget);
  };
  const errors = thrown instanceof AggregateError ? read(thrown, 'errors') : undefined;
  const hasCause = Object.hasOwn(thrown, 'cause') && !Object.hasOwn(fields, 'cause');
  return {
    isError: true,
    type: typeOf(thrown),
    message: String(read(thrown, 'message')),
    fields,
    cause: hasCause ? inner(read(thrown, 'cause')) : undefined,
    errors: Array.isArray(errors)
      ? errors.map(inner).filter((one) => one !== undefined)
      : undefined,
  };
}

export function unpackError(wire: WireError): unknown {
  if (!wire.isError) return wire.value;
  const error = newError(wire);
  for (const [key, value] of Object.entries(wire.fields)) {
    const enumerable = key !== 'name' && key !== 'stack';
    Object.defineProperty(error, key, { value, enumerable, configurable: true, writable: true });
  }
  if (wire.cause !== undefined) {
    const value = unpackError(wire.cause);
    Object.defineProperty(error, 'cause', { value, configurable: true, writable: true });
  }
  return error;
}

function newError({ type, message, errors, fields }: WireError & { isError: true }): Error {
  if (errors !== undefined) return new AggregateError(errors.map(unpackError), message);
  if (type === 'DOMException') return new DOMException(message, String(fields.name));
  const Type = errorTypes.find(({ name }) => name === type) ?? Error;
  return new Type(message);
}

function typeOf(error: Error): string {
  if (error instanceof DOMException) return 'DOMException';
  return errorTypes.find((type) => error instanceof type)?.name ?? 'Error';
}

/** A property of a thrown value, whose getter may throw. */
function read(thrown: object, key: string): unknown {
  try {
    return Reflect.get(thrown, key);
  } catch {
    return undefined;
  }
}

/** The error for a value that cannot be copied to another thread. */
export function uncopyable(name: string, value: unknown, cause: unknown): Error {
  return misuse(name, 'a value that can be copied', value, cause);
}
