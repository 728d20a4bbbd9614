import { fleetError } from '../errors.ts';
import type { Stats } from '../scheduling/stats.ts';
import { accessSchema, requestSchema } from './request-schema.ts';
import type { Rule } from './schema.ts';
import type { WorkerInfo } from './worker-info.ts';

/** Results of the games that were played with one trial's parameters. */
export interface SpsaResults {
  readonly wins: number;
  readonly losses: number;
  readonly draws: number;
  readonly num_games: number;
  readonly sig: number;
}

export interface Access {
  readonly username: string;
  readonly password: string;
}

/** What any worker's request may hold. */
export interface WorkerRequest {
  readonly password: string;
  readonly worker_info: WorkerInfo;
  readonly run_id?: string;
  readonly task_id?: number;
  readonly pgn?: string;
  readonly message?: string;
  readonly spsa?: SpsaResults;
  readonly stats?: Stats;
}

type TaskKeys = 'run_id' | 'task_id';

/** The parts of a request that each endpoint cannot do without. */
export interface Requirements {
  readonly request_task: never;
  readonly update_task: TaskKeys | 'stats';
  readonly beat: TaskKeys;
  readonly request_spsa: TaskKeys;
  readonly failed_task: TaskKeys;
  readonly stop_run: TaskKeys;
  readonly upload_pgn: TaskKeys | 'pgn';
  readonly worker_log: never;
}

export type Endpoint = keyof Requirements;

/** `request_version` reads no more than {@link readAccess} does. */
export const requirements: {
  readonly [Name in Endpoint]: readonly Requirements[Name][];
} = {
  request_task: [],
  update_task: ['run_id', 'task_id', 'stats'],
  beat: ['run_id', 'task_id'],
  request_spsa: ['run_id', 'task_id'],
  failed_task: ['run_id', 'task_id'],
  stop_run: ['run_id', 'task_id'],
  upload_pgn: ['run_id', 'task_id', 'pgn'],
  worker_log: [],
};

/** Who asks; throws `REQUEST_INVALID`. */
export function readAccess(body: unknown): Access {
  demand(accessSchema, body);
  const { password, worker_info } = body as WorkerRequest;
  return { username: worker_info.username, password };
}

/** Reads bodies by the strict schema; throws `REQUEST_INVALID` with the first fault found. */
export class RequestReader {
  readonly #schema: Rule;

  /** Names of users that are older than the rule for names. */
  constructor(legacyUsernames?: ReadonlySet<string>) {
    this.#schema = requestSchema(legacyUsernames);
  }

  read(body: unknown): WorkerRequest {
    demand(this.#schema, body);
    const request = body as WorkerRequest;
    const { task_id, stats, spsa } = request;
    return {
      ...request,
      worker_info: withNumbers(request.worker_info),
      ...(task_id !== undefined && { task_id: Number(task_id) }),
      ...(stats && { stats: counted(stats) }),
      ...(spsa && { spsa: counted(spsa) }),
    };
  }
}

/** After the run and the task were looked up, as far as they are there: what is still missing. */
export function requireFor<Name extends Endpoint>(
  endpoint: Name,
  request: WorkerRequest,
): WorkerRequest & Required<Pick<WorkerRequest, Requirements[Name]>> {
  const missing = requirements[endpoint].find((key: keyof WorkerRequest) => !(key in request));
  if (missing !== undefined) throw fleetError('REQUEST_INVALID', `Missing ${missing}`);
  if (endpoint === 'worker_log' && 'run_id' in request && !('task_id' in request)) {
    throw fleetError('REQUEST_INVALID', 'Missing task_id for worker_log run context');
  }
  return request as WorkerRequest & Required<Pick<WorkerRequest, Requirements[Name]>>;
}

function demand(rule: Rule, body: unknown): void {
  const problem = rule(body, 'request');
  if (problem !== undefined) throw fleetError('REQUEST_INVALID', problem);
}

/** The schema lets true pass as the integer 1. */
function withNumbers(info: WorkerInfo): WorkerInfo {
  return {
    ...info,
    concurrency: Number(info.concurrency),
    max_memory: Number(info.max_memory),
    min_threads: Number(info.min_threads),
    version: Number(info.version),
    nps: Number(info.nps),
  };
}

/** The same for counts and lists of counts. */
function counted<Counts extends object>(counts: Counts): Counts {
  const entries = Object.entries(counts).map(([key, value]: [string, unknown]) => {
    return [key, Array.isArray(value) ? value.map(Number) : Number(value)];
  });
  return Object.fromEntries(entries) as Counts;
}
