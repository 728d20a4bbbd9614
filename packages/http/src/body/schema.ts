import { Ajv2020, type AnySchema, type Options } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { linearPattern } from './pattern.ts';

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
