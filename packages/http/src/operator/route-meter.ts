import type { FastifyInstance, RouteOptions } from 'fastify';
import { type Clock, Lane, type Quantiles } from 'spillway';
import { Histogram } from 'spillway/internal';
import { plain } from '../base/plain.ts';
import type { MetricFamily, MetricSample } from './prometheus.ts';

/** What a route declares about itself. */
export interface RouteFacts {
  readonly method: string;
  readonly path: string;
  /** The lane it enters; null when none is named. */
  readonly lane: string | null;
  /** Where its work is done: `loop`, `thread` or `stream`; null when it does not say. */
  readonly domain: unknown;
  /** Its own rate limit, if it has one. */
  readonly rate: unknown;
}

/** How a route was used. */
export interface RouteUse {
  readonly method: string;
  /** The pattern, never the path that was asked for; `unmatched` for all that no route has. */
  readonly path: string;
  /** Answers by status; `aborted` when the client left before the end of its answer. */
  readonly answers: Readonly<Record<string, number>>;
  /** From the first header read to the end of the answer, over the last ten to twenty seconds. */
  readonly latencyMs: Quantiles;
}

const boundsMs = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];
const windowMs = 10_000;

/** One route's numbers, in fixed memory. */
class RouteRecord {
  readonly method: string;
  readonly path: string;
  readonly answers = new Map<string, number>();
  /** How many were within each bound and above the one before; the last is without bound. */
  readonly counts = new Float64Array(boundsMs.length + 1);
  sumMs = 0;
  #since: number;
  #current = new Histogram();
  #previous = new Histogram();

  constructor(method: string, path: string, now: number) {
    this.method = method;
    this.path = path;
    this.#since = now;
  }

  add(status: string, ms: number, now: number): void {
    this.#turn(now);
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    const within = boundsMs.findIndex((bound) => ms <= bound);
    const at = within === -1 ? boundsMs.length : within;
    this.counts[at] = (this.counts[at] as number) + 1;
    this.sumMs += ms;
    this.#current.record(ms);
  }

  stats(now: number): RouteUse {
    this.#turn(now);
    const { method, path } = this;
    const latencyMs = Histogram.quantiles([this.#current, this.#previous]);
    return { method, path, answers: Object.fromEntries(this.answers), latencyMs };
  }

  #turn(now: number): void {
    if (now - this.#since < windowMs) return;
    // After a long silence, what was before it says nothing about now.
    if (now - this.#since >= 2 * windowMs) this.#current.clear();
    [this.#current, this.#previous] = [this.#previous, this.#current];
    this.#current.clear();
    this.#since = now;
  }
}

/** Counts the answers of each route and how long they took; as many records as there are routes. */
export class RouteMeter {
  readonly #clock: Clock;
  readonly #declared: RouteOptions[] = [];
  readonly #records = new Map<string, RouteRecord>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Follows the routes that are added from now on, and all requests to them. */
  follow(app: FastifyInstance): void {
    app.addHook('onRoute', (route) => {
      this.#declared.push(route);
    });
    app.addHook('onRequest', (request, reply, done) => {
      const arrivedAt = this.#clock.now();
      const { raw } = reply;
      // It comes after every answer, and also if the client went before the end of its own.
      raw.on('close', () => {
        const now = this.#clock.now();
        const status = raw.writableEnded ? String(raw.statusCode) : 'aborted';
        const { url } = request.routeOptions;
        const record = this.#record(url === undefined ? '' : request.method, url);
        record.add(status, now - arrivedAt, now);
      });
      done();
    });
  }

  /** What the routes declare; read anew each time, since other plugins add to it later. */
  get routes(): RouteFacts[] {
    return this.#declared.flatMap(({ method, url, config }) => {
      const { lane = null, domain = null, rate = null } = Object(config) as Record<string, unknown>;
      const name: unknown = typeof lane === 'object' ? (Object(lane).name ?? null) : lane;
      return [method].flat().flatMap((one) => {
        if (one === 'HEAD') return [];
        return [{ method: one, path: url, lane: name as string | null, domain, rate: plain(rate) }];
      });
    });
  }

  /** The lanes that routes enter. */
  get lanes(): ReadonlySet<Lane> {
    const lanes = this.#declared.map(({ config }) => Object(config).lane as unknown);
    return new Set(lanes.filter((lane) => lane instanceof Lane));
  }

  get stats(): RouteUse[] {
    const now = this.#clock.now();
    return [...this.#records.values()].map((record) => record.stats(now));
  }

  get metrics(): MetricFamily[] {
    const records = [...this.#records.values()];
    const answers = records.flatMap((record) => {
      const labels = { method: record.method, route: record.path };
      return [...record.answers].map(([status, value]) => ({
        labels: { ...labels, status },
        value,
      }));
    });
    return [
      {
        name: 'spillway_http_requests_total',
        type: 'counter',
        help: 'Requests by route pattern and status.',
        samples: answers,
      },
      {
        name: 'spillway_http_request_seconds',
        type: 'histogram',
        help: 'Time from the first header read to the end of the answer.',
        samples: records.flatMap(histogramSamples),
      },
    ];
  }

  #record(method: string, url = 'unmatched'): RouteRecord {
    const key = `${method} ${url}`;
    let record = this.#records.get(key);
    if (record === undefined) {
      record = new RouteRecord(method, url, this.#clock.now());
      this.#records.set(key, record);
    }
    return record;
  }
}

function histogramSamples({ method, path, counts, sumMs }: RouteRecord): MetricSample[] {
  const labels = { method, route: path };
  let count = 0;
  const buckets = [...boundsMs, Infinity].map((bound, at) => {
    count += counts[at] as number;
    const le = bound === Infinity ? '+Inf' : String(bound / 1000);
    return { suffix: '_bucket', labels: { ...labels, le }, value: count };
  });
  return [
    ...buckets,
    { suffix: '_sum', labels, value: sumMs / 1000 },
    { suffix: '_count', labels, value: count },
  ];
}
