import type { FastifyInstance, FastifyPluginAsync } from 'fastify';
import { httpError } from '../base/errors.ts';
import { plugin } from '../base/plugin.ts';

/** Levels of nesting in a body: each costs stack in every function that walks through it. */
const depthMax = 64;

/** Reads JSON bodies as Fastify does, but none that is nested without bound. */
export function readJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  const type = 'application/json';
  app.removeContentTypeParser(type);
  app.addContentTypeParser<string>(type, { parseAs: 'string' }, (request, text, done) => {
    if (isDeep(text)) {
      done(httpError('BODY_INVALID', `the body may be nested ${depthMax} levels deep at most`));
    } else {
      void parse(request, text, done);
    }
  });
}

/** True if arrays and objects are nested too deep, found in one pass over the text. */
function isDeep(text: string): boolean {
  if (text.length <= depthMax) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfString(text, at + 1);
    else if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) depth -= 1;
    if (depth > depthMax) return true;
  }
  return false;
}

function endOfString(text: string, from: number): number {
  for (let end = text.indexOf('"', from); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes += 1;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/** More fields than any form has: each costs many times the bytes that it came in. */
const formFieldsMax = 1_000;

/**
 * The fields of a form by name, all texts; a list where a name comes more than once. A form of more
 * than `fieldsMax` fields is refused with `BODY_INVALID`.
 */
export function formFields(
  text: string,
  fieldsMax: number = formFieldsMax,
): Readonly<Record<string, string | string[]>> {
  // Counted first: URLSearchParams takes seconds for half a million fields (2026-11).
  const isTooLong = text.matchAll(/[^&]+/g).drop(fieldsMax).next().done === false;
  if (isTooLong) {
    throw httpError('BODY_INVALID', `a form may have ${fieldsMax} fields at most`);
  }
  // Strangers choose the names: none of them may be found on a prototype.
  const fields: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const known = fields[name];
    if (known === undefined) fields[name] = value;
    else if (typeof known === 'string') fields[name] = [known, value];
    else known.push(value);
  }
  return fields;
}

/** Reads the forms that browsers send without any script (`application/x-www-form-urlencoded`). */
export const forms: FastifyPluginAsync = plugin('forms', async (app) => {
  const type = 'application/x-www-form-urlencoded';
  app.addContentTypeParser(type, { parseAs: 'string' }, async (_request: unknown, text: string) =>
    formFields(text),
  );
});
