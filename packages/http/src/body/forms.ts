import type { FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { httpError } from '../base/errors.ts';

/** More than any form has: each costs many times the bytes that it came in. */
const fieldsMax = 1_000;

/** The fields by name, all texts: a list where a name comes more than once. */
export function formFields(text: string): Readonly<Record<string, string | string[]>> {
  // Names are what a stranger says: none of them may be found on a prototype.
  const fields: Record<string, string | string[]> = Object.create(null);
  let count = 0;
  for (const [name, value] of new URLSearchParams(text)) {
    count += 1;
    if (count > fieldsMax) {
      throw httpError('BODY_INVALID', `a form may have ${fieldsMax} fields at most`);
    }
    const known = fields[name];
    if (known === undefined) fields[name] = value;
    else if (typeof known === 'string') fields[name] = [known, value];
    else known.push(value);
  }
  return fields;
}

/** Reads the forms that browsers send without any script (`application/x-www-form-urlencoded`). */
export const forms: FastifyPluginAsync = fastifyPlugin(
  async (app) => {
    const type = 'application/x-www-form-urlencoded';
    app.addContentTypeParser(type, { parseAs: 'string' }, async (_request: unknown, text: string) =>
      formFields(text),
    );
  },
  { name: 'spillway-forms', fastify: '5.x' },
);
