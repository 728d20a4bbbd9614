import { misuse } from './check.ts';
import { field } from './failure.ts';

/** A value that JSON can hold. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/**
 * Writes a value as JSON; throws if it would be read back as another one: NaN, a Map, a Date, a
 * class instance, `undefined` in an array. A property that is undefined is left out.
 */
export function jsonText(value: unknown): string {
  try {
    // This comes first, since it throws on a cycle, where `checkPart` would not end.
    const text = JSON.stringify(value);
    checkPart(value, '');
    return text;
  } catch (cause) {
    throw misuse('value', 'JSON', value, cause);
  }
}

/** Throws at the first part that JSON would change. */
function checkPart(part: unknown, path: string): void {
  if (part === null || typeof part === 'string' || typeof part === 'boolean') return;
  if (typeof part === 'number' && Number.isFinite(part)) return;
  if (Array.isArray(part)) {
    for (let index = 0; index < part.length; index += 1)
      checkPart(part[index], `${path}[${index}]`);
    return;
  }
  if (typeof part !== 'object') throw lost(typeof part === 'number' ? part : typeof part, path);
  const prototype = Object.getPrototypeOf(part);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain || typeof field(part, 'toJSON') === 'function') {
    throw lost(`an instance of ${part.constructor?.name ?? 'a class'}`, path);
  }
  for (const [key, inner] of Object.entries(part)) {
    if (inner !== undefined) checkPart(inner, `${path}.${key}`);
  }
}

function lost(what: unknown, path: string): Error {
  return new Error(`${what}${path === '' ? '' : ` at ${path}`} is not JSON`);
}
