import type { FastifyPluginAsync } from 'fastify';
import { rankerError } from '../errors.ts';
import type { TrainingKind } from '../learn/choice.ts';
import { checkExplanations } from '../ranking/explanation-check.ts';
import type { RatedItem } from '../ranking/training-set.ts';
import { trainingAnswer, userStats } from '../ranking/user-stats.ts';
import { itemOf, rounded } from './answers.ts';
import type { RankerContext } from './context.ts';
import {
  bodyBytesMax,
  type ItemBody,
  itemsMax,
  ratedItemSchema,
  scoreSchema,
  urlSchema,
} from './request-schemas.ts';

const rated = {
  type: 'object',
  required: ['url', 'score'],
  properties: { url: urlSchema, score: scoreSchema },
  additionalProperties: false,
};
const bulk = {
  type: 'object',
  required: ['items'],
  properties: { items: { type: 'array', minItems: 1, maxItems: itemsMax, items: rated } },
  additionalProperties: false,
};
const kindSchema = {
  type: 'object',
  properties: { kind: { enum: ['quick', 'intensive'] } },
  additionalProperties: false,
};
const historyMax = 50;
/** Ratings that an evaluation needs: fewer say nothing. */
const evaluatedMin = 10;

/** Judgements, what is learned from them, and how well that goes. */
export const trainingRoutes: FastifyPluginAsync<RankerContext> = async (app, options) => {
  const { storage, ranking, tastes, training, trainingSet, lanes } = options;
  const changing = { lane: lanes.corrections, domain: 'thread', csrf: false } as const;
  const long = { lane: lanes.long, domain: 'thread', csrf: false } as const;
  const reading = { lane: lanes.read } as const;

  app.post<{ Body: ItemBody & { readonly score: number } }>(
    '/correct_rank',
    { config: changing, schema: { body: ratedItemSchema }, bodyLimit: bodyBytesMax },
    async ({ rankerUser, body, permit }) => {
      const { score, ...item } = body;
      const done = await ranking.correct(rankerUser.id, itemOf(item), score, permit.signal);
      const { article, predicted } = done;
      return {
        status: 'accepted',
        message: `${article.title || article.url} is ${score} to you`,
        url: article.url,
        id: article.id,
        predicted: rounded(predicted),
        rank: rounded(done.score.score),
        version: done.score.version,
      };
    },
  );
  app.post<{ Body: { readonly items: readonly RatedItem[] } }>(
    '/train_bulk',
    { config: changing, schema: { body: bulk }, bodyLimit: bodyBytesMax },
    async ({ rankerUser, body, permit }, reply) => {
      const count = await trainingSet.add(rankerUser.id, body.items, permit.signal);
      reply.code(202);
      return { status: 'accepted', count, message: 'texts are fetched by POST /fetch_training' };
    },
  );
  app.post('/fetch_training', { config: long }, async ({ rankerUser, permit }) => {
    const { fetched, failed } = await trainingSet.fetch(rankerUser.id, permit.signal);
    const message = `${fetched} texts were fetched, ${failed} could not be`;
    return { status: 'completed', fetched, failed, message };
  });
  app.post<{ Body: { readonly kind?: TrainingKind } | undefined }>(
    '/retrain',
    { config: changing, schema: { body: { anyOf: [kindSchema, { type: 'null' }] } } },
    async ({ rankerUser, body }, reply) => {
      const kind = body?.kind ?? 'intensive';
      const samples = await ranking.retrain(rankerUser.id, kind);
      reply.code(202);
      return { status: 'queued', training_samples: samples, message: `${kind} training is queued` };
    },
  );
  app.delete('/retrain', { config: changing }, async ({ rankerUser }) => {
    return { cancelled: training.cancel(rankerUser.id) };
  });
  app.get('/training', { config: reading }, async ({ rankerUser, permit }) => {
    const history = await storage.trainings.list(rankerUser.id, historyMax, permit.signal);
    const { running } = training;
    const own = running?.user === rankerUser.id ? running : null;
    return { running: own, history: history.map(trainingAnswer) };
  });
  app.get('/stats', { config: reading }, async ({ rankerUser, permit }) => {
    const { id: userId } = rankerUser;
    const { version } = await tastes.current(userId, permit.signal);
    return { ...(await userStats(options, userId, true)), taste: { version } };
  });
  app.get('/training_set', { config: reading }, async ({ rankerUser, permit }) => {
    const items = await storage.ratings.listUrls(rankerUser.id, permit.signal);
    return { items, count: items.length };
  });
  app.get('/evaluation', { config: long }, async ({ rankerUser, permit }) => {
    const evaluation = await training.evaluate(rankerUser.id, undefined, permit.signal);
    const { trained = 0, tested = 0 } = evaluation ?? {};
    if (evaluation !== undefined && trained + tested >= evaluatedMin) return evaluation;
    const message = `an evaluation needs ${evaluatedMin} rated articles with their texts`;
    throw rankerError('NOTHING_RATED', `${message}, there are ${trained + tested}`);
  });
  app.get('/evaluation/explanations', { config: long }, async ({ rankerUser, permit }) => {
    return await checkExplanations(options, rankerUser.id, permit.signal);
  });
};
