import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { failureOf } from 'spillway-http';
import { canonicalUrl } from '../fetching/canonical-url.ts';
import { UnavailableError } from '../fetching/unavailable.ts';
import type { RatedItem } from '../ranking/training-set.ts';
import { type TrainingAnswer, userStats } from '../ranking/user-stats.ts';
import { rounded } from './answers.ts';
import type { RankerContext } from './context.ts';
import { bodyBytesMax, urlMax } from './request-schemas.ts';

type CompatOptions = Omit<RankerContext, 'lists'> & {
  /** The user of all requests: the old service had only one reader. */
  readonly userId: () => Promise<string>;
};

type Reason = 'unavailable' | 'timeout' | 'error';

/** The value for a body that cannot be read. */
const notJson = Symbol('not JSON');

/** The eight endpoints of news-score in its form, in which failures have status 200. */
export const compatRoutes: FastifyPluginAsync<CompatOptions> = async (app, options) => {
  const { storage, ranking, trainingSet, lanes, userId } = options;
  const config = { lane: lanes.rank, domain: 'thread', csrf: false, bodyTypes: 'any' } as const;
  const post = { config, bodyLimit: bodyBytesMax } as const;
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) => {
    done(null, parsed(text as string));
  });
  app.addHook('preHandler', async ({ body }, reply) => {
    if (body !== notJson) return;
    const loc = ['body', 0];
    await refusal(reply, { type: 'json_invalid', loc, msg: 'JSON decode error', input: {} });
  });
  // Failures before the handler, such as overload, keep their real status.
  app.setErrorHandler((error, _request, reply) => {
    const { status, message, headers } = failureOf(error);
    reply.code(status).headers(headers).send({ detail: message });
  });

  app.get('/rank', { config }, async ({ query, permit }, reply) => {
    const { url } = Object(query) as { url?: unknown };
    const loc = ['query', 'url'];
    if (typeof url !== 'string') return wrong(reply, loc, url, 'string');
    if (url.length === 0 || url.length > urlMax) return wrongLength(reply, loc, url);
    try {
      const item = { url };
      const { score } = await ranking.rank(await userId(), item, { signal: permit.signal });
      return { url, rank: rounded(score.score), source: 'ok' };
    } catch (error) {
      return { url, rank: 0, source: reasonOf(error) };
    }
  });
  app.post('/correct_rank', post, async ({ body, permit }, reply) => {
    const { url, score: given } = Object(body) as { url?: unknown; score?: unknown };
    const score = numberOf(given);
    if (typeof url !== 'string') return wrong(reply, ['body', 'url'], url, 'string');
    if (score === undefined) return wrong(reply, ['body', 'score'], given, 'number');
    if (score < 1 || score > 10) {
      return { status: 'error', message: `score must be from 1 to 10, got ${score}` };
    }
    try {
      await ranking.correct(await userId(), { url }, score, permit.signal);
      return { status: 'accepted', message: `Training queued for ${url}` };
    } catch (error) {
      const { message } = failureOf(error);
      return { status: reasonOf(error) === 'unavailable' ? 'skipped' : 'error', message };
    }
  });
  app.post('/train_bulk', post, async ({ body, permit }, reply) => {
    const { items } = Object(body) as { items?: unknown };
    if (!Array.isArray(items)) return wrong(reply, ['body', 'items'], items, 'list');
    const rated = items.flatMap(ratedOf);
    try {
      if (rated.length > 0) await trainingSet.add(await userId(), rated, permit.signal);
      const message = `${rated.length} items were added`;
      return { status: 'accepted', count: rated.length, message };
    } catch (error) {
      return { status: 'error', count: 0, message: failureOf(error).message };
    }
  });
  app.post('/fetch_training', { config: { ...config, lane: lanes.long } }, async ({ permit }) => {
    const { fetched, failed } = await trainingSet.fetch(await userId(), permit.signal);
    const message = `${fetched} texts were fetched, ${failed} could not be`;
    return { status: 'completed', fetched, failed, message };
  });
  app.post('/retrain', post, async () => {
    try {
      const samples = await ranking.retrain(await userId(), 'intensive');
      return { status: 'queued', training_samples: samples, message: 'Training is queued' };
    } catch (error) {
      return { status: 'error', training_samples: 0, message: failureOf(error).message };
    }
  });
  app.get('/stats', { config: { lane: lanes.read } }, async () => {
    const stats = await userStats(options, await userId(), false);
    return { ...stats, last_training: stats.last_training && oneKind(stats.last_training) };
  });
  app.get('/training_set', { config: { lane: lanes.read } }, async ({ permit }) => {
    const items = await storage.ratings.listUrls(await userId(), permit.signal);
    return { items, count: items.length };
  });
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return notJson;
  }
}

/** Numbers may come as texts. */
function numberOf(value: unknown): number | undefined {
  const isText = typeof value === 'string' && value.trim() !== '';
  const found = isText ? Number(value) : value;
  return typeof found === 'number' && Number.isFinite(found) ? found : undefined;
}

/** Reads items; one that lacks a field is left out. */
function ratedOf(item: unknown): RatedItem[] {
  const { url, score: given } = Object(item) as { url?: unknown; score?: unknown };
  const score = numberOf(given) ?? 0;
  const isAddress = typeof url === 'string' && canonicalUrl(url) !== undefined;
  return isAddress && score >= 1 && score <= 10 ? [{ url, score }] : [];
}

/** The old service knew one kind of training, and three ways it could be. */
function oneKind(training: TrainingAnswer): TrainingAnswer {
  const isKnown = training.status === 'running' || training.status === 'completed';
  return { ...training, type: 'continuous', status: isKnown ? training.status : 'interrupted' };
}

function reasonOf(error: unknown): Reason {
  const { code, status } = failureOf(error);
  if (code === 'DEADLINE') return 'timeout';
  const isOut = error instanceof UnavailableError || status === 422;
  return isOut ? 'unavailable' : 'error';
}

function wrong(
  reply: FastifyReply,
  loc: readonly string[],
  input: unknown,
  kind: 'list' | 'number' | 'string',
): FastifyReply {
  const isMissing = input === undefined;
  const type = isMissing ? 'missing' : `${kind === 'number' ? 'float' : kind}_type`;
  const msg = isMissing ? 'Field required' : `Input should be a valid ${kind}`;
  return refusal(reply, { type, loc, msg, input: input ?? null });
}

function wrongLength(reply: FastifyReply, loc: readonly string[], url: string): FastifyReply {
  const isShort = url === '';
  const most = isShort ? 'at least 1 character' : `at most ${urlMax} characters`;
  const type = isShort ? 'string_too_short' : 'string_too_long';
  return refusal(reply, { type, loc, msg: `String should have ${most}`, input: url.slice(0, 80) });
}

function refusal(reply: FastifyReply, detail: object): FastifyReply {
  return reply.code(422).send({ detail: [detail] });
}
