import { fleetError } from '../errors.ts';
import type { Stats } from '../world/world.ts';
import {
  architectures,
  either,
  flag,
  integer,
  list,
  number,
  object,
  oneOf,
  pattern,
  patterns,
  type Rule,
  text,
  wrong,
} from './schema.ts';

/** Results of the games that were played with one trial's parameters. */
export interface SpsaResults {
  readonly wins: number;
  readonly losses: number;
  readonly draws: number;
  readonly num_games: number;
  readonly sig: number;
}

export interface Access {
  /** Address of the request: attempts from one address keep no other out. @default unknown */
  readonly address?: string | undefined;
  readonly username: string;
  readonly password: string;
}

/** Fields that any worker's request may hold. */
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

/** Reads the user and password of a request; throws `REQUEST_REFUSED`. */
export function readAccess(body: unknown): Access {
  demand(accessSchema, body);
  const { password, worker_info } = body as WorkerRequest;
  return { username: worker_info.username, password };
}

/** Reads bodies by the strict schema; throws `REQUEST_REFUSED` with the first fault found. */
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
  if (missing !== undefined) throw fleetError('REQUEST_REFUSED', `Missing ${missing}`);
  if (endpoint === 'worker_log' && 'run_id' in request && !('task_id' in request)) {
    throw fleetError('REQUEST_REFUSED', 'Missing task_id for worker_log run context');
  }
  return request as WorkerRequest & Required<Pick<WorkerRequest, Requirements[Name]>>;
}

function demand(rule: Rule, body: unknown): void {
  const problem = rule(body, 'request');
  if (problem !== undefined) throw fleetError('REQUEST_REFUSED', problem);
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

const count = integer(0);
const version = list(count, 3);

/** Rule for user and password alone: nothing else is looked at before the password is. */
export const accessSchema: Rule = object({
  required: {
    password: text,
    worker_info: object({ required: { username: text }, open: true }),
  },
  open: true,
});

/** Totals that games and pairs can have come to. */
export const statsSchema: Rule = object({
  required: {
    wins: count,
    losses: count,
    draws: count,
    crashes: count,
    time_losses: count,
    pentanomial: list(count, 5),
  },
  together: (value, name) => {
    const { wins, losses, draws, pentanomial } = value as Stats;
    const [p0, p1, p2, p3, p4] = pentanomial as [number, number, number, number, number];
    const agree =
      wins + losses + draws === 2 * (p0 + p1 + p2 + p3 + p4) &&
      wins - losses === 2 * p4 + p3 - p1 - 2 * p0 &&
      p1 + p3 <= draws &&
      draws <= p1 + 2 * p2 + p3;
    return agree ? undefined : wrong(value, name, 'has games and pairs that do not agree');
  },
});

/** The batch that was just played with a trial's parameters. */
export const spsaSchema: Rule = object({
  required: { wins: count, losses: count, draws: count, num_games: count, sig: count },
  together: (value, name) => {
    const { wins, losses, draws, num_games } = value as Record<string, number>;
    const games = (wins as number) + (losses as number) + (draws as number);
    if ((num_games as number) % 2 !== 0) return wrong(value, name, 'has an odd num_games');
    return games === num_games ? undefined : wrong(value, name, 'does not add up to num_games');
  },
});

/** The strict schema of a worker's request; some users' names are older than the rule for names. */
export function requestSchema(legacyUsernames: ReadonlySet<string> = new Set()): Rule {
  const username = pattern(patterns.username, 'a user name: two letters or digits, or more');
  const worker_info = object({
    required: {
      uname: text,
      architecture: list(text, 2),
      concurrency: integer(1),
      max_memory: count,
      min_threads: integer(1),
      username: either(username, oneOf(legacyUsernames)),
      version: count,
      python_version: version,
      gcc_version: version,
      compiler: oneOf(new Set(['g++', 'clang++'])),
      unique_key: pattern(patterns.uniqueKey, 'a unique key'),
      modified: flag,
      worker_arch: oneOf(new Set([...architectures, 'unknown'])),
      ARCH: text,
      nps: number(0),
      near_github_api_limit: flag,
    },
  });
  return object({
    required: { password: text, worker_info },
    optional: {
      run_id: pattern(patterns.runId, 'a run id: 24 hexadecimal digits'),
      task_id: count,
      pgn: text,
      message: text,
      spsa: spsaSchema,
      stats: statsSchema,
    },
    together: (value, name) => {
      const { task_id, run_id } = value as Record<string, unknown>;
      return task_id === undefined || run_id !== undefined
        ? undefined
        : `${name}['run_id'] is missing, but there is a task_id`;
    },
  });
}

/** Description that a worker sends of itself with every request. */
export interface WorkerInfo {
  readonly uname: string;
  readonly architecture: readonly string[];
  readonly concurrency: number;
  /** In MiB. */
  readonly max_memory: number;
  readonly min_threads: number;
  readonly username: string;
  readonly version: number;
  readonly python_version: readonly number[];
  readonly gcc_version: readonly number[];
  readonly compiler: string;
  readonly unique_key: string;
  readonly modified: boolean;
  readonly worker_arch: string;
  readonly ARCH: string;
  readonly nps: number;
  readonly near_github_api_limit: boolean;
}

/** The same with what the server adds before it is stored. */
export interface StoredWorkerInfo extends WorkerInfo {
  readonly remote_addr: string;
  readonly country_code: string;
}

type Named = Pick<WorkerInfo, 'username' | 'concurrency' | 'unique_key' | 'modified'>;

/** `<user>-<n>cores-<first block of the key>`: what a machine is known by. */
export function shortName({ username, concurrency, unique_key }: Named): string {
  return `${username}-${concurrency}cores-${unique_key.split('-')[0]}`;
}

/** The short name with the second block of the key, and a star if the worker was changed. */
export function longName(info: Named): string {
  return `${shortName(info)}-${info.unique_key.split('-')[1]}${info.modified ? '*' : ''}`;
}
