import { Readable } from 'node:stream';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { Item } from '../ranking/library.ts';
import { itemOf, rankAnswer } from './answers.ts';
import type { RankerContext } from './context.ts';
import { ndjsonBodies, ndjsonType } from './ndjson.ts';
import { rankLines } from './rank-lines.ts';
import { bodyBytesMax, type ItemBody, itemSchema, itemsMax, urlSchema } from './request-schemas.ts';

interface RankQuery {
  readonly url: string;
  readonly explain?: boolean;
}

interface RankBody extends ItemBody {
  readonly items?: readonly ItemBody[];
  readonly explain?: boolean;
}

const querystring = {
  type: 'object',
  required: ['url'],
  properties: { url: urlSchema, explain: { type: 'boolean' } },
};
const body = {
  ...itemSchema,
  properties: {
    ...itemSchema.properties,
    items: { type: 'array', minItems: 1, maxItems: itemsMax, items: itemSchema },
    explain: { type: 'boolean' },
  },
};

/** `GET /rank?url=…`, and `POST /rank` with a URL, a text, or many of either. */
export const rankRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { ranking, lanes } = options;
  const one = async ({ rankerUser, permit }: FastifyRequest, item: Item, explain = false) => {
    return rankAnswer(await ranking.rank(rankerUser.id, item, { explain, signal: permit.signal }));
  };
  const config = { lane: lanes.rank, domain: 'thread' } as const;
  app.get<{ Querystring: RankQuery }>(
    '/rank',
    { config, schema: { querystring } },
    async (request) => one(request, { url: request.query.url }, request.query.explain),
  );

  /** A line for each article, in order, as fast as the client reads them. */
  const many = async (request: FastifyRequest, reply: FastifyReply, items: readonly Item[]) => {
    const { signal } = request.permit;
    // A second permit besides that of the request: a few batches must not take all workers.
    const place = await lanes.batches.enter({ signal });
    const batch = { ...options, signal, items, userId: request.rankerUser.id };
    const lines = Readable.from(rankLines(batch), { objectMode: false });
    lines.once('close', () => place[Symbol.dispose]());
    return reply.type(ndjsonType).send(lines);
  };
  ndjsonBodies(app);
  app.post<{ Body: RankBody }>(
    '/rank',
    {
      config: {
        ...({ lane: lanes.rank, domain: 'stream', csrf: false } as const),
        bodyTypes: ['application/json', ndjsonType],
      },
      schema: { body },
      bodyLimit: bodyBytesMax,
    },
    async (request, reply) => {
      const { items, explain, ...item } = request.body;
      if (items === undefined) return one(request, itemOf(item), explain);
      return many(request, reply, items.map(itemOf));
    },
  );
};
