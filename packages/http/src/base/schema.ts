import { Ajv2020, type AnySchema, type Options } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { RE2JS } from 're2js';
import { check } from 'spillway/internal';

interface RouteSchema {
  readonly schema: unknown;
  readonly httpPart?: string | undefined;
}

type Validate = (data: unknown) => unknown;

const common: Options = {
  addUsedSchema: false,
  allErrors: false,
  removeAdditional: false,
  strictTypes: false,
  useDefaults: true,
  code: { regExp: Object.assign(linearPattern, { code: 'linearPattern' }) },
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

/** A longer text does not match: 64 Ki characters take up to 25 ms (2026-11). */
const textLengthMax = 65_536;

/** A pattern as a validator uses it. */
interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

/**
 * A pattern that is tried on texts of strangers, by an engine whose time is linear in the text: V8
 * goes back and tries again. Its syntax is that of RE2; any other pattern is refused when its route
 * is declared.
 */
function linearPattern(source: string): Pattern {
  const expression = compiled(source);
  const rule = 'free of lookarounds, back references and repetitions over 1,000';
  check(expression !== undefined, 'pattern', rule, source);
  return {
    test: (text) => text.length <= textLengthMax && expression.test(text),
    // The compiler takes two patterns of the same text for the same pattern.
    toString: () => source,
  };
}

function compiled(source: string): RE2JS | undefined {
  // A named back reference would be taken for the letters that it is written with.
  if (/(^|[^\\])(\\\\)*\\k/.test(source)) return undefined;
  try {
    return RE2JS.compile(RE2JS.translateRegExp(source));
  } catch {
    return undefined;
  }
}
