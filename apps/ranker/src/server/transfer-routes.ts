import { Readable } from 'node:stream';
import type { FastifyPluginAsync } from 'fastify';
import { download } from 'spillway-http';
import { exportLines, importLines, type TransferLine } from '../ranking/transfer.ts';
import type { RankerContext } from './context.ts';
import { ndjsonBodies, ndjsonType } from './ndjson.ts';

/** Larger ones are sent in pieces: each line stands for itself. */
const importBytesMax = 8 * 1_048_576;

/** `GET /export` and `POST /import`: a JSON value a line. */
export const transferRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { storage, tastes, training, embedding, lanes } = options;
  ndjsonBodies(app);
  app.get(
    '/export',
    { config: { lane: lanes.long, domain: 'stream' } },
    async ({ rankerUser, permit: { signal } }, reply) => {
      const lines = exportLines(storage, rankerUser, signal);
      const body = Readable.from(texts(lines), { objectMode: false });
      return download(reply, { body, type: ndjsonType, name: `ranker-${rankerUser.name}.ndjson` });
    },
  );
  app.post<{ Body: { readonly items: readonly unknown[] } }>(
    '/import',
    {
      config: { lane: lanes.long, domain: 'thread', csrf: false, bodyTypes: [ndjsonType] },
      bodyLimit: importBytesMax,
    },
    async ({ rankerUser, body, permit: { signal } }) => {
      const { id: userId } = rankerUser;
      const done = await importLines(options, userId, body.items, signal);
      embedding.wake();
      tastes.forget(userId);
      if (done.ratings > 0) training.add(userId, 'quick');
      return done;
    },
  );
};

async function* texts(lines: AsyncIterable<TransferLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}
