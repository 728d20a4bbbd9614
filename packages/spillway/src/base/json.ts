import { misuse } from './check.ts';

/** A value that JSON can hold. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/**
 * Writes a value as JSON, and refuses a value that would come back as another one: NaN, a Map, a
 * Date, a class instance, `undefined` in an array. A property that is undefined is left out.
 */
export function jsonText(value: unknown): string {
  let text: string | undefined;
  try {
    // This comes first: it ends on a cycle, where looking at each part would not.
    text = JSON.stringify(value);
  } catch (cause) {
    throw misuse('value', 'JSON', value, cause);
  }
  const lost = findLost(value, '');
  if (lost !== undefined || text === undefined) {
    throw misuse('value', 'JSON', value, new Error(lost ?? `${typeof value} is not JSON`));
  }
  return text;
}

/** Describes the first part that JSON would change, or gives undefined. */
function findLost(value: unknown, path: string): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? undefined : `${value}${at(path)} is not JSON`;
    case 'object':
      return value === null ? undefined : findLostIn(value, path);
    default:
      return `${typeof value}${at(path)} is not JSON`;
  }
}

function findLostIn(value: object, path: string): string | undefined {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const lost = findLost(value[index], `${path}[${index}]`);
      if (lost !== undefined) return lost;
    }
    return undefined;
  }
  const prototype = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain || typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    return `an instance of ${value.constructor?.name ?? 'a class'}${at(path)} is not JSON`;
  }
  for (const [key, part] of Object.entries(value)) {
    if (part === undefined) continue;
    const lost = findLost(part, `${path}.${key}`);
    if (lost !== undefined) return lost;
  }
  return undefined;
}

function at(path: string): string {
  return path === '' ? '' : ` at ${path}`;
}
