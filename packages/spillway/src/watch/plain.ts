/** Deeper than the stats of any part; the limit also ends objects that refer to themselves. */
const depthMax = 12;

/** A copy that JSON can hold: errors by name, code and message, class instances by their class. */
export function plain(value: unknown, depth = 0): unknown {
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (typeof value === 'function') return '[function]';
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= depthMax) return '[deeper]';
  if (value instanceof Error) {
    const { name, code, message } = value as Error & { readonly code?: unknown };
    return code === undefined ? { name, message } : { name, code, message };
  }
  if (Array.isArray(value)) return value.map((item) => plain(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  const isLiteral = prototype === Object.prototype || prototype === null;
  if (!isLiteral) return `[${value.constructor?.name ?? 'object'}]`;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, plain(item, depth + 1)]),
  );
}
