import type { FastifyInstance, RouteOptions } from 'fastify';
import type { Clock, Lane, MetricFamily, MetricSample, Quantiles } from 'spillway';
import { Histogram, Meter, plain } from 'spillway/internal';

/** Place of a route's work: the event loop, worker threads, or the chunks of a stream. */
export type Domain = 'loop' | 'thread' | 'stream';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Place of the route's work. @default 'loop' */
    domain?: Domain | undefined;
    /** Set on the routes for orchestrators and balancers, which no guard holds up. */
    readonly probe?: 'live' | 'ready' | undefined;
    /** The numbers of the route; set by the server. */
    numbers?: RouteNumbers | undefined;
  }
}

/** A route: what it declares, and how it was used. */
export interface RouteStats {
  readonly method: string;
  /** The pattern, never the path that was asked for; `unmatched` for all that no route has. */
  readonly path: string;
  /** The lane that its requests enter. */
  readonly lane: string | null;
  readonly domain: Domain;
  /** Its own rate limit, if it has one. */
  readonly rate: unknown;
  /** Answers by status; `aborted` when the client left before the end of its answer. */
  readonly answers: Readonly<Record<string, number>>;
  /** From the first header read to the end of the answer, over the last ten to twenty seconds. */
  readonly latencyMs: Quantiles;
  /** The longest stretch known for which each call held the event loop; see {@link Routes}. */
  readonly loopMs: Quantiles;
  /** More than one call in a hundred held the event loop longer than a handler may. */
  readonly broken: boolean;
}

const boundsMs = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/** The numbers of one route, in fixed memory. */
export class RouteNumbers {
  readonly method: string;
  readonly path: string;
  /** Undefined for requests that no route takes. */
  readonly route: RouteOptions | undefined;
  /** The lane that its requests enter. */
  lane: Lane | undefined = undefined;
  /** Fastify scope in which the route was declared. */
  readonly scope: FastifyInstance | undefined;
  /** Answers by status; 0 if the client left before the end of its answer. */
  readonly answers: Map<number, number> = new Map();
  /** Counts of answers within each bound and above the one before; the last has no bound. */
  readonly counts: Float64Array = new Float64Array(boundsMs.length + 1);
  readonly loopMs: Histogram = new Histogram();
  sumMs = 0;
  readonly #latency: Meter;

  constructor(route: RouteOptions | undefined, scope: FastifyInstance | undefined, now: number) {
    const { method = [], url = 'unmatched' } = route ?? {};
    this.method = [method].flat().join(',');
    this.path = url;
    this.route = route;
    this.scope = scope;
    this.#latency = new Meter(now);
  }

  /** Counts an answer that is over. */
  add(status: number, ms: number, now: number): void {
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    let at = 0;
    while (at < boundsMs.length && ms > (boundsMs[at] as number)) at += 1;
    this.counts[at] = (this.counts[at] as number) + 1;
    this.sumMs += ms;
    this.#latency.pass(now, 'ok', { waitMs: 0, serviceMs: ms });
  }

  stats(now: number, loopMsMax: number): RouteStats {
    const { domain = 'loop', rate = null } = this.route?.config ?? {};
    const loopMs = Histogram.quantiles([this.loopMs]);
    return {
      method: this.method,
      path: this.path,
      lane: this.lane?.name ?? null,
      domain,
      rate: plain(rate),
      answers: Object.fromEntries(this.byStatus()),
      latencyMs: this.#latency.stats(now).serviceMs,
      loopMs,
      broken: loopMs.p99 > loopMsMax,
    };
  }

  byStatus(): [status: string, count: number][] {
    return [...this.answers].map(([status, count]) => {
      return [status === 0 ? 'aborted' : String(status), count];
    });
  }
}

/**
 * The routes of a server: answers, latency, and for how long their handlers hold the event loop.
 * Two stretches of a call are known: from its start to its first `await`, and the last one before
 * it settles. A stretch between two awaits is seen in the delay of the event loop only.
 */
export class Routes {
  readonly #clock: Clock;
  readonly #loopMsMax: number;
  /** The numbers of all requests that no route takes. */
  readonly unmatched: RouteNumbers;
  readonly #routes: RouteNumbers[] = [];

  constructor(clock: Clock, loopMsMax: number) {
    this.#clock = clock;
    this.#loopMsMax = loopMsMax;
    this.unmatched = new RouteNumbers(undefined, undefined, clock.now());
  }

  /** Follows the routes that are added to the app from now on. */
  follow(app: FastifyInstance): void {
    const routes = this.#routes;
    const clock = this.#clock;
    app.addHook('onRoute', function (route) {
      const numbers = new RouteNumbers(route, this, clock.now());
      routes.push(numbers);
      route.config = { ...route.config, numbers };
    });
  }

  /** Counts a request that was refused at once. */
  refused(numbers: RouteNumbers = this.unmatched, status: number): void {
    numbers.add(status, 0, this.#clock.now());
  }

  /** The routes as they were declared. */
  get declared(): readonly RouteOptions[] {
    return this.#routes.flatMap(({ route }) => route ?? []);
  }

  /** The lanes that routes enter. */
  get lanes(): ReadonlySet<Lane> {
    return new Set(this.#routes.map(({ lane }) => lane).filter((lane) => lane !== undefined));
  }

  /** Gives each route its lane: the one it names, or a new one that it shares with its HEAD. */
  giveLanes(create: (name: string, created: number, domain?: Domain) => Lane): void {
    const own = new Map<string, Lane>();
    for (const numbers of this.#routes) {
      const { route, method, path } = numbers;
      if (route?.config?.probe !== undefined) continue;
      const name = `${method === 'HEAD' ? 'GET' : method} ${path}`;
      const { lane, domain } = route?.config ?? {};
      numbers.lane = lane ?? own.get(name) ?? create(name, own.size, domain);
      if (lane === undefined) own.set(name, numbers.lane);
    }
  }

  get stats(): RouteStats[] {
    const now = this.#clock.now();
    // A HEAD route comes with each GET, and says nothing until somebody uses it.
    const isShown = ({ route, method, answers }: RouteNumbers) =>
      answers.size > 0 || (route !== undefined && method !== 'HEAD');
    const shown = [...this.#routes, this.unmatched].filter(isShown);
    return shown.map((numbers) => numbers.stats(now, this.#loopMsMax));
  }

  get metrics(): MetricFamily[] {
    const used = [...this.#routes, this.unmatched].filter(({ answers }) => answers.size > 0);
    const answers = used.flatMap((numbers) => {
      const { method, path } = numbers;
      return numbers.byStatus().map(([status, value]) => {
        return { labels: { method, route: path, status }, value };
      });
    });
    const times = used.flatMap(histogramSamples);
    return [
      { name: 'spillway_http_requests_total', type: 'counter', samples: answers },
      { name: 'spillway_http_request_seconds', type: 'histogram', samples: times },
    ];
  }
}

function histogramSamples({ method, path, counts, sumMs }: RouteNumbers): MetricSample[] {
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
