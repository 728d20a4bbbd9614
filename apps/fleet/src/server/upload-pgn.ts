import type { FastifyPluginAsync } from 'fastify';
import { Gate } from 'spillway';
import { uploads } from 'spillway-http';
import { fleetError } from '../errors.ts';
import { type PgnShelf, receivePgn } from '../files/pgns.ts';
import type { Primary } from '../primary/primary.ts';
import { requireFor, type WorkerRequest } from '../protocol/read-request.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import { WorkerScope, type WorkerScopeOptions } from './worker-scope.ts';

export interface UploadPgnOptions extends WorkerScopeOptions {
  readonly primary: Primary;
  readonly storage: FleetStorage;
  readonly pgns: PgnShelf;
}

/** The longest body: base64 makes a third more of it than the file has. */
const bodyBytesMax = 200 * 2 ** 20;
/** Games are packed to a fifth or less; this is more than any worker plays. */
const textBytesMax = 2 ** 30;
/** Files that are looked into at once, on threads that others need too. */
const checksMax = 2;
const waitingMax = 1_000;

/** Takes the games of a task, active or not, on any instance; the body is never in memory whole. */
export const uploadPgn: FastifyPluginAsync<UploadPgnOptions> = async (app, options) => {
  const scope = new WorkerScope(app, options);
  await app.register(uploads);
  const admit = async (body: unknown, signal: AbortSignal) => {
    const { request } = await scope.read(body, { signal });
    await assertOwner(options, request);
    const { run_id, task_id } = requireFor('upload_pgn', request);
    return { run_id: run_id.toLowerCase(), task_id };
  };
  const checks = new Gate({ limit: checksMax, queueMax: waitingMax });
  const limits = { checks, shelf: options.pgns, bodyBytesMax, textBytesMax, admit };
  const work = async (http: Parameters<typeof receivePgn>[0]) => {
    await receivePgn(http, limits, http.permit.signal);
    return {};
  };
  scope.post('upload_pgn', work, { bodyLimit: bodyBytesMax, anywhere: true });
};

/** Checks the run, the task and its owner, in memory or, elsewhere, in what is stored. */
async function assertOwner(
  { primary, storage }: UploadPgnOptions,
  request: WorkerRequest,
): Promise<void> {
  const { run_id, task_id, worker_info } = request;
  if (run_id === undefined) return;
  if (primary.isPrimary && primary.world.run(run_id) !== undefined) {
    primary.world.find(request);
    return;
  }
  const task = await storage.task(run_id, task_id ?? 0);
  if (task === undefined) throw fleetError('REQUEST_REFUSED', `Invalid run_id: ${run_id}`);
  if (task_id === undefined) return;
  if (task === null) throw fleetError('REQUEST_REFUSED', `Invalid task_id: ${task_id}`);
  for (const key of ['unique_key', 'username'] as const) {
    if (worker_info[key] === task.worker_info[key]) continue;
    throw fleetError('REQUEST_REFUSED', `Invalid ${key} for task ${run_id}/${task_id}`);
  }
}
