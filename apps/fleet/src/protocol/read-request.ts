import { Ajv, type ErrorObject } from 'ajv';
import type { SpillwayError } from 'spillway';
import { fleetError } from '../errors.ts';
import { architectures, patterns } from './patterns.ts';
import {
  document,
  flag,
  list,
  oneOf,
  optional,
  pattern,
  type Rule,
  required,
  type Shape,
  text,
  type ValueOf,
} from './rules.ts';

export interface Access {
  /** Address of the request: attempts from one address keep no other out. @default unknown */
  readonly address?: string | undefined;
  readonly username: string;
  readonly password: string;
}

/** Any worker's request. */
export type WorkerRequest = Readonly<ValueOf<ReturnType<typeof requestRule>>>;
/** Description that a worker sends of itself with every request. */
export type WorkerInfo = Readonly<WorkerRequest['worker_info']>;
/** Results of the games that were played with one trial's parameters. */
export type SpsaResults = ValueOf<typeof spsaRule>;

/**
 * The parts of a request that each endpoint cannot do without; `request_version` reads no more than
 * {@link readAccess} does.
 */
export const requirements = {
  request_task: [],
  update_task: ['run_id', 'task_id', 'stats'],
  beat: ['run_id', 'task_id'],
  request_spsa: ['run_id', 'task_id'],
  failed_task: ['run_id', 'task_id'],
  stop_run: ['run_id', 'task_id'],
  upload_pgn: ['run_id', 'task_id', 'pgn'],
  worker_log: [],
} as const;

export type Endpoint = keyof typeof requirements;

/** A request with all that an endpoint needs. */
type RequestFor<Name extends Endpoint> = WorkerRequest &
  Required<Pick<WorkerRequest, (typeof requirements)[Name][number]>>;

/** Reads the user and password of a request; throws `REQUEST_REFUSED`. */
export function readAccess(body: unknown): Access {
  checkAccess(body);
  const { password, worker_info } = body as WorkerRequest;
  return { username: worker_info.username, password };
}

/** Reads bodies by the strict schema; throws `REQUEST_REFUSED` with the first fault found. */
export class RequestReader {
  readonly #check: (body: unknown) => void;

  /** Names of users that are older than the rule for names. */
  constructor(legacyUsernames: ReadonlySet<string> = new Set()) {
    this.#check = checker(requestRule(legacyUsernames));
  }

  read(body: unknown): WorkerRequest {
    this.#check(body);
    const sent = body as WorkerRequest;
    const { task_id, stats, spsa } = sent;
    const request = {
      ...sent,
      worker_info: normalized(sent.worker_info),
      ...(task_id !== undefined && { task_id: Number(task_id) }),
      ...(stats && { stats: counted(stats) }),
      ...(spsa && { spsa: counted(spsa) }),
    };
    const fault = discord(request);
    if (fault !== undefined) throw refusal(fault);
    return request;
  }
}

/** Throws `REQUEST_REFUSED` for a missing field, after run and task were looked up. */
export function requireFor<Name extends Endpoint>(
  endpoint: Name,
  request: WorkerRequest,
): RequestFor<Name> {
  const needed: readonly (keyof WorkerRequest)[] = requirements[endpoint];
  const missing = needed.find((key) => !(key in request));
  if (missing !== undefined) throw refusal(`Missing ${missing}`);
  if (endpoint === 'worker_log' && 'run_id' in request && !('task_id' in request)) {
    throw refusal('Missing task_id for worker_log run context');
  }
  return request as RequestFor<Name>;
}

/** Longest text of a worker about itself; real ones have up to some hundred characters. */
const textMax = 1_000;

/** Turns true into 1, which the schema allows, and cuts long texts. */
function normalized(info: WorkerInfo): WorkerInfo {
  return {
    ...info,
    uname: start(info.uname),
    architecture: info.architecture.map(start),
    ARCH: start(info.ARCH),
    concurrency: Number(info.concurrency),
    max_memory: Number(info.max_memory),
    min_threads: Number(info.min_threads),
    version: Number(info.version),
    nps: Number(info.nps),
  };
}

/** The start of a long text, not cut inside a character: a database would refuse that. */
function start(text: string): string {
  return text.length > textMax ? text.slice(0, textMax).toWellFormed() : text;
}

/** Turns true into 1 in counts and lists of counts. */
function counted<Counts extends object>(counts: Counts): Counts {
  const entries = Object.entries(counts).map(([key, value]: [string, unknown]) => {
    return [key, Array.isArray(value) ? value.map(Number) : Number(value)];
  });
  return Object.fromEntries(entries) as Counts;
}

/** In Python true is the integer 1. A maximum keeps sums over many tasks exact if a worker lies. */
function number(min: 0 | 1, max = Number.MAX_SAFE_INTEGER, type: 'integer' | 'number' = 'integer') {
  const truths = min === 0 ? [true, false] : [true];
  const plain = { type, minimum: min, maximum: max };
  const most = max < Number.MAX_SAFE_INTEGER ? ` and <= ${max}` : '';
  const title = `${type === 'integer' ? 'an' : 'a'} ${type} >= ${min}${most}`;
  const rule: Rule<number> = { title, anyOf: [plain, { enum: truths }] };
  return rule;
}

function object<S extends Shape>(properties: S) {
  return { ...document(properties, 'a dict'), additionalProperties: false };
}

const count = number(0);
const gameCount = number(0, 2 ** 32);
const version: Rule<readonly number[]> = list(count, 3);
const bits: Rule<readonly string[]> = list(text, 2);

/** User and password alone: the rest is read after the password was checked. */
const accessRule = document(
  { password: text, worker_info: document({ username: text }, 'a dict') },
  'a dict',
);

const statsRule = object({
  ...required(gameCount, 'wins', 'losses', 'draws', 'crashes', 'time_losses'),
  pentanomial: list(gameCount, 5),
});
const spsaRule = object(required(gameCount, 'wins', 'losses', 'draws', 'num_games', 'sig'));

/** The strict schema of a worker's request; some users' names are older than the rule for names. */
function requestRule(legacyUsernames: ReadonlySet<string>) {
  const name = 'a user name: two letters or digits, or more';
  const worker_info = object({
    uname: text,
    architecture: bits,
    concurrency: number(1, 65_536),
    /** In MiB. */
    max_memory: count,
    min_threads: number(1),
    username: {
      ...text,
      title: name,
      anyOf: [pattern(patterns.username, name), { enum: ['', ...legacyUsernames] }],
    },
    version: count,
    python_version: version,
    gcc_version: version,
    compiler: oneOf<string>('g++', 'clang++'),
    unique_key: pattern(patterns.uniqueKey, 'a unique key'),
    modified: flag,
    worker_arch: oneOf(...architectures, 'unknown'),
    ARCH: text,
    nps: number(0, 1e9, 'number'),
    near_github_api_limit: flag,
  });
  return object({
    password: text,
    worker_info,
    ...optional(pattern(patterns.runId, 'a run id: 24 hexadecimal digits'), 'run_id'),
    ...optional(count, 'task_id'),
    ...optional(text, 'pgn', 'message'),
    ...optional(spsaRule, 'spsa'),
    ...optional(statsRule, 'stats'),
  });
}

/** Checks by a rule; throws `REQUEST_REFUSED` with the first fault found. */
function checker(rule: Rule): (body: unknown) => void {
  const isRight = ajv.compile(rule);
  return (body) => {
    if (!isRight(body)) throw refusal(faultOf(isRight.errors?.at(-1) as ErrorObject));
  };
}

const ajv = new Ajv({ verbose: true, strict: false });
const checkAccess = checker(accessRule);

function faultOf({ instancePath, keyword, params, data, parentSchema }: ErrorObject): string {
  const keys = instancePath.split('/').slice(1);
  const name = `request${keys.map((key) => (/^\d+$/.test(key) ? `[${key}]` : at(key))).join('')}`;
  if (keyword === 'required') return `${name}${at(params.missingProperty)} is missing`;
  if (keyword === 'additionalProperties') {
    return `${name}${at(params.additionalProperty)} is not in the schema`;
  }
  return wrong(data, name, `is not ${parentSchema?.title}`);
}

/** Explains how the parts of a request contradict each other; undefined if they do not. */
function discord({ task_id, run_id, stats, spsa }: WorkerRequest): string | undefined {
  if (task_id !== undefined && run_id === undefined) {
    return "request['run_id'] is missing, but there is a task_id";
  }
  const name = (key: string) => `request['${key}']`;
  if (spsa !== undefined) {
    const games = spsa.wins + spsa.losses + spsa.draws;
    if (spsa.num_games % 2 !== 0) return wrong(spsa, name('spsa'), 'has an odd num_games');
    if (games !== spsa.num_games) return wrong(spsa, name('spsa'), 'does not add up to num_games');
  }
  return stats === undefined || agrees(stats)
    ? undefined
    : wrong(stats, name('stats'), 'has games and pairs that do not agree');
}

/** True if games and pairs can have come to these totals. */
function agrees({ wins, losses, draws, pentanomial }: ValueOf<typeof statsRule>): boolean {
  const [p0, p1, p2, p3, p4] = pentanomial as [number, number, number, number, number];
  return (
    wins + losses + draws === 2 * (p0 + p1 + p2 + p3 + p4) &&
    wins - losses === 2 * p4 + p3 - p1 - 2 * p0 &&
    p1 + p3 <= draws &&
    draws <= p1 + 2 * p2 + p3
  );
}

function refusal(text: string): SpillwayError {
  return fleetError('REQUEST_REFUSED', text);
}

/** Names what was received, and shows it if it is not too long. */
function wrong(value: unknown, name: string, complaint: string): string {
  return `${name} (value:${cut(shown(value))}) ${complaint}`;
}

/** Writes a value as JSON, or `...` if it is nested too deep for that. */
function shown(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'undefined';
  } catch {
    return '...';
  }
}

function at(key: string): string {
  return `['${cut(key)}']`;
}

function cut(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}

type WorkerNames = Pick<WorkerInfo, 'username' | 'concurrency' | 'unique_key' | 'modified'>;

/** `<user>-<n>cores-<first block of the key>`: what a machine is known by. */
export function shortName({ username, concurrency, unique_key }: WorkerNames): string {
  return `${username}-${concurrency}cores-${unique_key.split('-')[0]}`;
}

/** The user whose worker has this short name, which may be older than the rule for names. */
export function workerOwner(name: string): string | undefined {
  return /^(\S{1,200})-\d{1,9}cores-[0-9a-zA-Z]{2,8}$/.exec(name)?.[1];
}

/** The short name with the second block of the key, and a star if the worker was changed. */
export function longName(info: WorkerNames): string {
  return `${shortName(info)}-${info.unique_key.split('-')[1]}${info.modified ? '*' : ''}`;
}
