/** A document cannot be taken; the message is the same for all with the same fault. */
export class DocumentFault extends Error {}

/** A kind of values, and how it is called in complaints. */
export interface Kind {
  readonly name: string;
  readonly holds: (value: unknown) => boolean;
}

/** A field of a document: its kind, and its value where it is missing. */
export interface ShapeField {
  readonly kind: Kind;
  readonly isRequired: boolean;
  /** Undefined if a missing field stays away. */
  readonly absent?: unknown;
}

export type Shape = Readonly<Record<string, ShapeField>>;

export const text: Kind = { name: 'a text', holds: (value) => typeof value === 'string' };
export const truth: Kind = { name: 'true or false', holds: (value) => typeof value === 'boolean' };
export const decimal: Kind = { name: 'a number', holds: (value) => Number.isFinite(value) };
export const list: Kind = { name: 'a list', holds: Array.isArray };
export const texts: Kind = {
  name: 'a list of texts',
  holds: (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
};
export const document: Kind = {
  name: 'a document',
  holds: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

export function whole(from: number): Kind {
  const holds = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= from;
  return { name: `an integer from ${from}`, holds };
}

export function matching(pattern: RegExp, name: string): Kind {
  return { name, holds: (value) => typeof value === 'string' && pattern.test(value) };
}

export function oneOf(...words: readonly string[]): Kind {
  return { name: `one of ${words.join(', ')}`, holds: (value) => words.includes(value as string) };
}

/** Fields that documents cannot do without. */
export function required<Name extends string>(
  kind: Kind,
  ...names: Name[]
): Record<Name, ShapeField> {
  return fields(names, { kind, isRequired: true });
}

/** Fields that get a value where they are missing, or stay away. */
export function optional<Name extends string>(
  kind: Kind,
  absent: unknown,
  ...names: Name[]
): Record<Name, ShapeField> {
  return fields(names, { kind, isRequired: false, absent });
}

function fields<Name extends string>(names: readonly Name[], field: ShapeField) {
  return Object.fromEntries(names.map((name) => [name, field])) as Record<Name, ShapeField>;
}

/** Reads a document field by field; throws {@link DocumentFault}, and tells what it leaves out. */
export function readShape<Result>(
  shape: Shape,
  value: unknown,
  path: string,
  onLeftOut: (path: string) => void,
): Result {
  if (!document.holds(value)) throw new DocumentFault(`${path || 'it'} is not a document`);
  const given = value as Readonly<Record<string, unknown>>;
  const result: Record<string, unknown> = {};
  for (const [name, { kind, isRequired, absent }] of Object.entries(shape)) {
    const found = Object.hasOwn(given, name) ? (given[name] ?? undefined) : undefined;
    if (found === undefined) {
      if (isRequired) throw new DocumentFault(`${path}${name} is missing`);
      if (absent !== undefined) result[name] = absent;
    } else if (kind.holds(found)) result[name] = found;
    else throw new DocumentFault(`${path}${name} is not ${kind.name}`);
  }
  for (const name in given) if (!Object.hasOwn(shape, name)) onLeftOut(`${path}${name}`);
  return result as Result;
}
