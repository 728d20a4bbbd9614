import { fleetError } from '../errors.ts';
import type { Primary } from '../primary.ts';
import { requireFor, type WorkerRequest } from '../protocol/read-request.ts';
import type { FleetStorage } from '../storage/fleet-storage.ts';
import { storePgn } from '../storage/pgn-table.ts';
import { wallClock } from '../wall-clock.ts';
import type { WorkerScope } from './worker-scope.ts';

export interface UploadPgnOptions {
  readonly primary: Primary;
  readonly storage: FleetStorage;
}

/** The longest body: base64 makes a third more of it than the file has. */
const bodyLimit = 200 * 2 ** 20;

/** Takes the games of a task, active or not, on any instance. */
export function uploadPgn(scope: WorkerScope, options: UploadPgnOptions): void {
  const { storage } = options;
  scope.route(
    'upload_pgn',
    async ({ request }) => {
      await assertOwner(options, request);
      const { run_id, task_id, pgn } = requireFor('upload_pgn', request);
      const zip = Buffer.from(pgn, 'base64');
      const isGzip = zip[0] === 0x1f && zip[1] === 0x8b && zip[2] === 8;
      if (!isGzip) throw fleetError('REQUEST_INVALID', 'pgn is not a gzip file in base64');
      const now = wallClock.now();
      await storePgn(storage.database, { runId: run_id, taskId: task_id, zip, now });
      return {};
    },
    { bodyLimit, anywhere: true },
  );
}

/** The checks of the run, the task and its owner, from memory or, elsewhere, from what is stored. */
async function assertOwner(
  { primary, storage }: UploadPgnOptions,
  request: WorkerRequest,
): Promise<void> {
  const { run_id, task_id, worker_info } = request;
  if (run_id === undefined) return;
  if (primary.isPrimary && primary.fleet.run(run_id) !== undefined) {
    primary.fleet.find(request);
    return;
  }
  const task = await storage.task(run_id, task_id ?? 0);
  if (task === undefined) throw fleetError('REQUEST_INVALID', `Invalid run_id: ${run_id}`);
  if (task_id === undefined) return;
  if (task === null) throw fleetError('REQUEST_INVALID', `Invalid task_id: ${task_id}`);
  for (const key of ['unique_key', 'username'] as const) {
    if (worker_info[key] === task.worker_info[key]) continue;
    throw fleetError('REQUEST_INVALID', `Invalid ${key} for task ${run_id}/${task_id}`);
  }
}
