import type { FastifyInstance } from 'fastify';
import { rankerError } from '../errors.ts';

export const ndjsonType = 'application/x-ndjson';

/** Parses bodies with a JSON value per line as `{ items: […] }` in the routes of this scope. */
export function ndjsonBodies(app: FastifyInstance): void {
  app.addContentTypeParser(ndjsonType, { parseAs: 'string' }, (_request, text, done) => {
    const items: unknown[] = [];
    for (const [at, line] of (text as string).split('\n').entries()) {
      if (line.trim() === '') continue;
      try {
        items.push(JSON.parse(line));
      } catch {
        done(rankerError('INPUT_INVALID', `body: line ${at + 1} is not JSON`));
        return;
      }
    }
    done(null, { items });
  });
}
