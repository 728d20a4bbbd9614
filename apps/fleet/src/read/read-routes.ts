import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply } from 'fastify';
import { type Lane, SpillwayError } from 'spillway';
import { failureOf, refuseBody } from 'spillway-http';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import { patterns } from '../protocol/patterns.ts';
import { calculateElo } from '../statistics/sprt.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import type { RunRecord } from '../world/records.ts';
import { searchActions } from './action-search.ts';
import {
  answerUnknownPaths,
  apiErrors,
  jsonObject,
  queryTexts,
  refuseOtherMethods,
} from './answers.ts';
import {
  eloAnswer,
  finishedQuery,
  runAnswer,
  runInList,
  type StoredRuns,
  taskAnswer,
} from './stored-runs.ts';

/** The longest query about the log, in bytes. */
const actionsBodyBytesMax = 65_536;
const getUrls = [
  '/api/active_runs',
  '/api/finished_runs',
  '/api/get_run/:id',
  '/api/get_elo/:id',
  '/api/get_task/:id/:task',
  '/api/calc_elo',
  '/api/rate_limit',
];
const taskName = /^(0|[1-9]\d{0,8})(bad)?$/;

/** Routes of the public read API about runs, in the forms that scripts know. */
export const readRoutes: FastifyPluginAsync<Context> = async (app, context) => {
  const { source, storage, lanes, files } = context;
  const lane = lanes.api;
  apiErrors(app);
  const streamed = { config: { lane, domain: 'stream' } } as const;
  app.get('/api/active_runs', streamed, async (request, reply) => {
    return sendRuns(reply, await source.unfinished(request.permit.signal));
  });
  app.get('/api/finished_runs', streamed, async (request, reply) => {
    const query = finishedQuery(queryTexts(request.query));
    return sendRuns(reply, await source.finished(query, request.permit.signal));
  });
  app.get('/api/get_run/:id', { config: { lane } }, async (request, reply) => {
    openToAll(reply);
    const { id } = request.params as { id: string };
    return runAnswer(await findRun(source, id, request.permit.signal));
  });
  app.get('/api/get_elo/:id', { config: { lane } }, async (request) => {
    const { id } = request.params as { id: string };
    return eloAnswer(await findRun(source, id, request.permit.signal));
  });
  app.get('/api/get_task/:id/:task', { config: { lane } }, async (request) => {
    const { id, task } = request.params as { id: string; task: string };
    return findTask(source, id, task, request.permit.signal);
  });
  app.get('/api/calc_elo', { config: { lane } }, async (request) => {
    return calculateElo(queryTexts(request.query));
  });
  app.get('/api/rate_limit', { config: { lane } }, async () => files.budget);
  await app.register(async (scope) => actionsRoute(scope, storage, lanes.logSearch));
  refuseOtherMethods(app, getUrls, ['GET', 'HEAD']);
  refuseOtherMethods(app, ['/api/actions'], ['POST']);
  await app.register(async (scope) => answerUnknownPaths(scope), { prefix: '/api' });
};

function actionsRoute(app: FastifyInstance, storage: FleetStorage, lane: Lane): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body));
  app.setErrorHandler((error, _request, reply) => {
    // A query that is too long gets the answer of an invalid one.
    if (failureOf(error).status !== 413) throw error;
    refuseBody(reply);
    openToAll(reply);
    return reply.code(200).send([]);
  });
  const config = { lane, bodyTypes: 'any', csrf: false } as const;
  const route = { config, bodyLimit: actionsBodyBytesMax };
  app.post('/api/actions', route, async (request, reply) => {
    openToAll(reply);
    try {
      const query = JSON.parse(String(request.body));
      return await searchActions(storage, query, request.permit.signal);
    } catch (error) {
      // Overload is reported; any other failure is the fault of the query.
      if (error instanceof SpillwayError && error.retryable) throw error;
      return [];
    }
  });
}

function openToAll(reply: FastifyReply): void {
  reply.headers({
    'access-control-allow-origin': '*',
    'access-control-allow-headers': 'content-type',
  });
}

function sendRuns(reply: FastifyReply, runs: Iterable<RunRecord>): FastifyReply {
  const entries = Iterator.from(runs).map((run) => [run._id, runInList(run)] as const);
  const chunks = jsonObject(entries as unknown as Iterable<readonly [string, object]>);
  const body = Readable.from(chunks, { objectMode: false });
  return reply.type('application/json; charset=utf-8').send(body);
}

async function findRun(source: StoredRuns, id: string, signal: AbortSignal): Promise<RunRecord> {
  const run = patterns.runId.test(id) ? await source.run(id.toLowerCase(), signal) : undefined;
  if (run === undefined) throw fleetError('RECORD_UNKNOWN', `The run ${id} does not exist`);
  return run;
}

async function findTask(
  source: StoredRuns,
  id: string,
  name: string,
  signal: AbortSignal,
): Promise<object> {
  const [, number, bad] = taskName.exec(name) ?? [];
  const isPlain = number !== undefined && patterns.runId.test(id);
  const place = [id.toLowerCase(), Number(number)] as const;
  const find = () => (bad === undefined ? source.task(...place) : source.badTask(...place, signal));
  const task = isPlain ? await find() : undefined;
  if (task === undefined)
    throw fleetError('RECORD_UNKNOWN', `The task ${id}/${name} does not exist`);
  return taskAnswer(task);
}
