import { withoutNul } from '../storage/actions-log.ts';

/**
 * Parses a line of MongoDB's extended JSON, relaxed, canonical or of version 1: object ids become
 * texts, dates UNIX milliseconds, numbers numbers, and bytes lists of numbers. Texts lose
 * characters that Postgres does not take.
 */
export function extendedJson(text: string): unknown {
  return plain(JSON.parse(text));
}

function plain(value: unknown): unknown {
  if (typeof value === 'string') return withoutNul(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = plain(value[at]);
    return value;
  }
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    if (name.startsWith('$')) return wrapped(fields, name);
    fields[name] = plain(fields[name]);
  }
  return fields;
}

/** The value of an object such as `{ "$oid": "…" }`; an unknown one stays as it is. */
function wrapped(fields: Record<string, unknown>, name: string): unknown {
  const value = fields[name];
  switch (name) {
    case '$oid':
    case '$symbol':
      return value;
    case '$numberInt':
    case '$numberLong':
    case '$numberDouble':
    case '$numberDecimal':
      return Number(value);
    case '$date':
      return typeof value === 'string' ? Date.parse(value) : Number(plain(value));
    case '$binary':
    case '$type': {
      const { $binary } = fields;
      const base64 = typeof $binary === 'string' ? $binary : Object($binary).base64;
      return [...Buffer.from(String(base64), 'base64')];
    }
    case '$undefined':
      return undefined;
    default:
      return fields;
  }
}
