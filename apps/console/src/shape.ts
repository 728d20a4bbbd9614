/**
 * The form that a value of JSON must have: `0` for a number, `''` for a text, `[shape]` for a list,
 * `{ '*': shape }` for an object with any names, and an object with these fields at least. A name
 * that ends with `?` may be missing.
 */
export type Shape = number | string | readonly [Shape] | { readonly [name: string]: Shape };

/** True if a value has the form that the pages rely on. */
export function fits(value: unknown, shape: Shape): boolean {
  if (typeof shape === 'number') return Number.isFinite(value);
  if (typeof shape === 'string') return typeof value === 'string';
  if (Array.isArray(shape))
    return Array.isArray(value) && value.every((one) => fits(one, shape[0]));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(shape).every(([name, inner]) => {
    if (name === '*') return Object.values(value).every((one) => fits(one, inner));
    const field = (value as Readonly<Record<string, unknown>>)[name.replace('?', '')];
    return (field === undefined && name.endsWith('?')) || fits(field, inner);
  });
}
