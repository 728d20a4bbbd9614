import type { FastifyInstance, FastifyRequest } from 'fastify';
import { SpillwayError } from 'spillway';
import { refuseBody } from 'spillway-http';
import type { Context } from '../context.ts';
import { fleetError } from '../errors.ts';
import {
  type Endpoint,
  RequestReader,
  readAccess,
  type WorkerRequest,
} from '../protocol/read-request.ts';
import { durationOf, pathOf, refuseOtherMethods } from '../read/answers.ts';
import type { Waiter } from '../users/password.ts';
import type { User } from '../users/users.ts';

/** A request to an endpoint, with its user. */
export interface WorkerCall {
  readonly user: User;
  readonly request: WorkerRequest;
  readonly http: FastifyRequest;
}

export interface WorkerRouteOptions {
  /** The longest body, in bytes. @default 1 MiB */
  readonly bodyLimit?: number | undefined;
  /** True if every instance answers, not the primary alone. @default false */
  readonly anywhere?: boolean | undefined;
  /** Answer, with 200, while the queue of password checks is full. @default 503 */
  readonly busy?: object | undefined;
}

/** The rules that all of a worker's endpoints share, in the order that workers know. */
export class WorkerScope {
  readonly #app: FastifyInstance;
  readonly #context: Context;
  readonly #reader: RequestReader;

  /** Needs a scope of its own, in which all bodies are JSON and errors have the worker's form. */
  constructor(app: FastifyInstance, context: Context) {
    this.#app = app;
    this.#context = context;
    this.#reader = new RequestReader(context.legacyUsernames);
    answerWorkers(app);
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => {
      try {
        done(null, JSON.parse(body as string));
      } catch {
        done(notJson());
      }
    });
  }

  /** Authenticates the user; throws `REQUEST_REFUSED` or `ACCESS_REFUSED`. */
  admit(body: unknown, waiter: Waiter, address?: string): Promise<User> {
    if (body === undefined) throw notJson();
    return this.#context.users.admit({ ...readAccess(body), address }, waiter);
  }

  /** Authenticates the user, then reads the request by the strict schema. */
  async read(body: unknown, waiter: Waiter, address?: string): Promise<Omit<WorkerCall, 'http'>> {
    const user = await this.admit(body, waiter, address);
    return { user, request: this.#reader.read(body) };
  }

  /** Adds an endpoint with the strict schema; the run of a request is loaded into memory. */
  route(
    name: Endpoint,
    answer: (asked: WorkerCall) => Promise<object>,
    options: WorkerRouteOptions = {},
  ): void {
    const work = async (http: FastifyRequest) => {
      const asked = await this.read(http.body, http.permit, http.ip);
      const { run_id } = asked.request;
      if (run_id !== undefined) await this.#context.primary.recall(run_id, http.permit);
      return answer({ ...asked, http });
    };
    this.post(name, options.busy === undefined ? work : orBusy(work, options.busy), options);
  }

  post(
    name: Endpoint | 'request_version',
    answer: (http: FastifyRequest) => Promise<object>,
    { bodyLimit, anywhere = false }: WorkerRouteOptions = {},
  ): void {
    const app = this.#app;
    const lane = this.#context.lanes.workers[name];
    const config = { lane, primaryOnly: !anywhere, bodyTypes: 'any' as const, csrf: false };
    const url = `/api/${name}`;
    app.route({
      method: 'POST',
      url,
      ...(bodyLimit !== undefined && { bodyLimit }),
      config,
      handler: async (http, reply) => {
        const said = await answer(http);
        return { ...said, duration: durationOf(reply) };
      },
    });
    refuseOtherMethods(app, [url], ['POST']);
  }
}

type Work = (http: FastifyRequest) => Promise<object>;

function orBusy(work: Work, busy: object): Work {
  return (http) =>
    work(http).catch((error: unknown) => {
      if (error instanceof SpillwayError && /^(LANE|GATE)_FULL$/.test(error.code)) return busy;
      throw error;
    });
}

function notJson(): Error {
  return fleetError('REQUEST_REFUSED', 'request is not json encoded');
}

/**
 * Sends failures in the form that workers know. A worker gives its task up after an `error`, but
 * takes an answer that is no JSON for a network error and tries again. So a temporary failure has
 * an empty body, also that of an instance that is not the primary, but may be so in a moment.
 */
function answerWorkers(app: FastifyInstance): void {
  app.setErrorHandler((error, request, reply) => {
    if (reply.sent || reply.raw.destroyed) return reply;
    const { code, status, message, headers } = app.noteFailure(error, reply);
    const path = pathOf(request);
    refuseBody(reply);
    reply.code(status).headers({ ...headers, 'cache-control': 'no-store' });
    const willPass = status >= 500 && error instanceof SpillwayError;
    if (willPass) return reply.type('text/plain; charset=utf-8').send('');
    const text = code === 'UNEXPECTED' ? 'Internal Server Error' : message;
    return reply.send({ error: `${path}: ${text}`, duration: durationOf(reply) });
  });
}
