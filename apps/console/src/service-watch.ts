import { type Clock, type Refusal, type SpillwayError, systemClock, wallClock } from 'spillway';
import {
  askOperator,
  type OperatorAction,
  type OperatorPlace,
  type RecentError,
} from 'spillway-http';
import { type ConsoleEvent, type EventLog, eventsBetween } from './events.ts';
import { History } from './history.ts';
import type { BucketReading, LaneReading } from './parts.ts';
import { errorsOf, readingOf, type ServiceReading } from './reading.ts';

/** Counts of a lane in the last minute. */
export interface LaneMinute {
  readonly arrived: number;
  readonly refused: number;
  /** The reason of most refusals. */
  readonly reason: string | undefined;
}

/** Counts of a bucket from one look to the next. */
export interface BucketSecond {
  readonly taken: number;
  readonly refused: number;
  /** Tokens that were left at its end. */
  readonly tokens: number;
}

/** The counts of a lane and of a bucket that are kept for a minute. */
type LaneCounts = Pick<LaneReading, 'inside' | 'arrived' | 'refused'>;
type BucketCounts = Pick<BucketReading, 'taken' | 'refused' | 'tokens'>;

/** The counts of one look, by the name of the part. */
interface Look {
  readonly at: number;
  readonly lanes: ReadonlyMap<string, LaneCounts>;
  readonly buckets: ReadonlyMap<string, BucketCounts>;
}

export interface ServiceWatchOptions {
  readonly name: string;
  /** The place where its operator interface is asked. */
  readonly place: OperatorPlace;
  /** Its data folder, if it is on this machine. @default none */
  readonly folder?: string | undefined;
  readonly log: EventLog;
  readonly clock?: Clock | undefined;
}

const minuteMs = 60_000;
const askMsMax = 2_000;
/** Looks from one reading of the errors to the next: they cost a request each. */
const errorsEvery = 2;
/** Lanes whose history is kept for each service. */
const historiesMax = 500;
/** The most reasons of one silence that become events: a failing service may give endless ones. */
const reasonsMax = 8;

/** One service: asked for its stats once a second, with the last hour of a few numbers. */
export class ServiceWatch {
  readonly name: string;
  readonly folder: string | undefined;
  readonly loop: History = new History();
  /** Permits in use, by the name of the lane. */
  readonly inside: Map<string, History> = new Map();
  /** Median service times, by the name of the lane. */
  readonly serviceMs: Map<string, History> = new Map();
  reading: ServiceReading | undefined;
  errors: readonly RecentError[] = [];
  /** Reason of its silence; undefined while it answers. */
  silence: string | undefined;
  /** The reasons of this silence that are events already; none is repeated before it answers. */
  readonly #told = new Set<string>();
  readonly #place: OperatorPlace;
  readonly #log: EventLog;
  readonly #clock: Clock;
  /** The looks of the last minute, the oldest first. */
  readonly #minute: Look[] = [];
  #looks = 0;

  constructor({ name, place, folder, log, clock = systemClock }: ServiceWatchOptions) {
    this.name = name;
    this.folder = folder;
    this.#place = place;
    this.#log = log;
    this.#clock = clock;
  }

  /** Asks once; a service that does not answer keeps its last reading. */
  async look(signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(askMsMax)]);
    try {
      this.#take(readingOf(await this.ask('/-/stats', limit)));
      if (this.#looks % errorsEvery === 0) {
        this.errors = errorsOf(await this.ask('/-/errors', limit));
      }
      this.#looks += 1;
      if (this.silence !== undefined) this.#tell({ state: 'ok', text: 'answers again' });
      this.silence = undefined;
      this.#told.clear();
    } catch (error) {
      if (signal.aborted) return;
      const why = limit.aborted ? 'answers too slowly' : silenceOf(error as SpillwayError);
      this.silence = why;
      if (this.#told.has(why) || this.#told.size >= reasonsMax) return;
      this.#told.add(why);
      this.#tell({ state: 'error', text: why });
    }
  }

  /** Reads one endpoint of its operator interface. */
  async ask(path: string, signal: AbortSignal = AbortSignal.timeout(askMsMax)): Promise<unknown> {
    const { status, text } = await askOperator({ ...this.#place, path, signal });
    if (status !== 200) throw new Error(`answered ${status}`);
    return parsed(text);
  }

  /** Changes a part of the service; gives the reason if it refuses. */
  async act(action: OperatorAction): Promise<string | undefined> {
    const signal = AbortSignal.timeout(askMsMax);
    const call = { ...this.#place, path: '/-/actions', body: action, signal };
    const answer = await askOperator(call).catch((error: Error) => error);
    if (answer instanceof Error) return `It does not answer: ${answer.message}`;
    if (answer.status === 200) return undefined;
    const told = parsed(answer.text) as { error?: { message?: unknown } } | undefined;
    return String(told?.error?.message ?? `It answered ${answer.status}`);
  }

  /** Arrivals and refusals of a lane in the last minute. */
  minuteOf({ name, arrived, refused }: LaneReading): LaneMinute {
    const before = this.#minute[0]?.lanes.get(name);
    const counts = Object.entries(refused).map(([reason, count]) => {
      return { reason, count: count - (before?.refused[reason as Refusal] ?? 0) };
    });
    const sum = counts.reduce((all, { count }) => all + count, 0);
    const most = counts.toSorted((a, b) => b.count - a.count)[0];
    return {
      arrived: arrived - (before?.arrived ?? 0),
      refused: Math.max(0, sum),
      reason: sum > 0 ? most?.reason : undefined,
    };
  }

  /** All lanes at the moment of the last minute at which this one had most permits in use. */
  busiestOf({ name }: LaneReading): ReadonlyMap<string, Pick<LaneReading, 'inside'>> {
    const insideAt = ({ lanes }: Look) => lanes.get(name)?.inside ?? 0;
    const busiest = this.#minute.reduce<Look | undefined>((most, look) => {
      return most === undefined || insideAt(look) > insideAt(most) ? look : most;
    }, undefined);
    return busiest?.lanes ?? new Map();
  }

  /** A bucket in the last minute, look by look. */
  secondsOf({ name }: BucketReading): BucketSecond[] {
    const looks = this.#minute.flatMap(({ buckets }) => buckets.get(name) ?? []);
    return looks.slice(1).map(({ taken, refused, tokens }, at) => {
      const before = looks[at];
      return {
        taken: Math.max(0, taken - (before?.taken ?? 0)),
        refused: Math.max(0, refused - (before?.refused ?? 0)),
        tokens: Math.max(0, tokens),
      };
    });
  }

  #take(reading: ServiceReading): void {
    const { leftOut } = reading.parts;
    if (leftOut > 0 && this.reading?.parts.leftOut !== leftOut) {
      const text = `${leftOut} of its parts are not shown: too many, or of another version`;
      this.#tell({ state: 'warn', text });
    }
    const wasRestarted = (this.reading?.process.uptimeMs ?? 0) > reading.process.uptimeMs;
    if (wasRestarted) {
      this.#tell({ state: 'ok', text: 'was started again' });
      this.#minute.length = 0;
    } else if (this.reading !== undefined) {
      for (const event of eventsBetween(this.reading.parts, reading.parts)) this.#tell(event);
    }
    this.reading = reading;
    this.#remember(reading);
  }

  #remember({ process: own, parts }: ServiceReading): void {
    const at = this.#clock.now();
    this.loop.add(own.loopDelayMs.p99, at);
    for (const { name, inside, serviceMs } of [...parts.lanes, ...parts.pools]) {
      add(this.inside, name, inside, at);
      if (serviceMs.count > 0) add(this.serviceMs, name, serviceMs.p50, at);
    }
    const lanes = new Map<string, LaneCounts>();
    for (const { name, inside, arrived, refused } of parts.lanes) {
      lanes.set(name, { inside, arrived, refused });
    }
    const buckets = new Map<string, BucketCounts>();
    for (const { name, taken, refused, tokens } of parts.buckets) {
      buckets.set(name, { taken, refused, tokens });
    }
    this.#minute.push({ at, lanes, buckets });
    while (at - (this.#minute[0]?.at ?? at) > minuteMs) this.#minute.shift();
  }

  #tell(event: Pick<ConsoleEvent, 'state' | 'text'>): void {
    this.#log.add({ ...event, service: this.name, at: wallClock.now() });
  }
}

/** Parses JSON; undefined for a text that is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function silenceOf({ code, message }: SpillwayError): string {
  return code === 'ENOENT' || code === 'ECONNREFUSED' ? 'does not run' : message;
}

function add(all: Map<string, History>, name: string, value: number, at: number): void {
  let history = all.get(name);
  if (history === undefined) {
    if (all.size >= historiesMax) return;
    history = new History();
    all.set(name, history);
  }
  history.add(value, at);
}
