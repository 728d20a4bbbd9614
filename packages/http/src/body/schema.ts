import { Ajv2020, type AnySchema, type Options } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { safeRegex } from 'safe-regex2';
import { check } from 'spillway/internal';

/** How long a text may be that a pattern is tried on; a longer one does not match. */
const patternTextMax = 1_000;

/** A schema and the part of a request it is for. */
interface RouteSchema {
  readonly schema: unknown;
  readonly httpPart?: string | undefined;
}

type Validate = (data: unknown) => unknown;

interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

/**
 * A pattern is tried on what strangers send. One with a repetition inside a repetition, which may
 * take for ever on a short text, is refused when the route is declared; any other gets texts of
 * limited length only.
 */
function pattern(source: string, flags: string): Pattern {
  check(safeRegex(source), 'pattern', 'free of repetitions inside repetitions', source);
  const expression = new RegExp(source, flags);
  return {
    test: (text) => text.length <= patternTextMax && expression.test(text),
    // The compiler takes two patterns of the same text for the same pattern.
    toString: () => String(expression),
  };
}

const common: Options = {
  addUsedSchema: false,
  allErrors: false,
  removeAdditional: false,
  strictTypes: false,
  useDefaults: true,
  code: { regExp: Object.assign(pattern, { code: 'pattern' }) },
};

/**
 * Compiles the schemas of routes: JSON Schema 2020-12, with formats. Nothing is removed. A body is
 * taken as it is; in parameters, query and headers, which are all text, a text becomes the number
 * or boolean that the schema asks for, and a single value the array.
 */
export function buildValidator(
  shared: Readonly<Record<string, unknown>>,
): (route: RouteSchema) => Validate {
  const compiler = (options: Options): Ajv2020 => {
    const ajv = new Ajv2020({ ...common, ...options });
    formats.default(ajv);
    for (const schema of Object.values(shared)) ajv.addSchema(schema as AnySchema);
    return ajv;
  };
  const forBodies = compiler({ coerceTypes: false });
  const forTexts = compiler({ coerceTypes: 'array' });
  return ({ schema, httpPart }) => {
    const ajv = httpPart === 'body' || httpPart === undefined ? forBodies : forTexts;
    return ajv.compile(schema as AnySchema);
  };
}
