import type { IncomingMessage, ServerResponse } from 'node:http';
import { systemClock } from '../base/clock.ts';
import { isTimeout } from '../base/failure.ts';
import type { Lane } from '../lane/lane.ts';
import { entering } from '../wait/wait-queue.ts';
import { failureBody, failureOf, failureType, textOf } from './failure.ts';
import { endUnread } from './listener.ts';
import { LastStretch } from './loop-watch.ts';
import {
  type AdmissionOptions,
  checkAdmitted,
  clientGone,
  handleWithin,
  settleAdmission,
  signalOf,
} from './visit.ts';

/** Calls the next handler, or with an error the next error handler. */
export type Next = (error?: unknown) => unknown;

/** A middleware of Express, Connect or `node:http`. */
export type Middleware = (req: IncomingMessage, res: ServerResponse, next: Next) => void;

/**
 * Middleware for Express and Connect: lets a request into the lane before its body is read. A
 * refusal is an error for `next`; the deadline is answered by {@link failures}. The permit is held
 * until the answer has left or the client has gone.
 */
export function admission(options: AdmissionOptions<IncomingMessage>): Middleware {
  const { lane, keyOf } = settleAdmission(options);
  const stretch = new LastStretch();
  return (req, res, next) => {
    // Express is past its error handlers when they are called a second time for one request.
    const late: Next = (error) => failures(error, req, res);
    const handle = () => next();
    admit(lane, keyOf(req), { req, res, stretch, refuse: next, late, handle });
  };
}

/**
 * A handler in its lane, as a route of Express or for `createServer` of `node:http`. It may be
 * asynchronous: then the permit is held until it has ended, even past its deadline.
 * `app.get('/quotes', admitted(lane, async (req, res, signal) => res.json(await quotes(signal))))`
 */
export function admitted<Req extends IncomingMessage, Res extends ServerResponse>(
  lane: Lane,
  handler: (req: Req, res: Res, signal: AbortSignal) => unknown,
): (req: Req, res: Res, next?: Next) => void {
  checkAdmitted(lane, handler);
  const stretch = new LastStretch();
  return (req, res, next = (error) => failures(error, req, res)) => {
    const handle = (): unknown => handler(req, res, signalOf(req));
    admit(lane, undefined, { req, res, stretch, refuse: next, late: next, handle });
  };
}

interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly stretch: LastStretch;
  readonly handle: () => unknown;
  /** Called with a refusal, or with an error of the handler. */
  readonly refuse: Next;
  /** Called when the deadline has passed and no answer has begun. */
  readonly late: Next;
}

function admit(lane: Lane, key: string | undefined, exchange: Exchange): void {
  const { req, res, refuse } = exchange;
  // The client left during an earlier middleware: there will be no second `close` event.
  if (res.closed) return;
  const client = new AbortController();
  const closed = Promise.withResolvers<void>();
  res.once('close', () => {
    if (!res.writableEnded) client.abort(clientGone);
    closed.resolve();
  });
  const run = async (): Promise<void> => {
    const permit = await entering(lane, { signal: client.signal, key });
    await handleWithin(permit, exchange.stretch, req, async () => {
      await exchange.handle();
      await closed.promise;
      return { status: res.statusCode };
    });
  };
  run().catch((error) => {
    void closed.promise.then(() => endUnread(req, systemClock));
    if (client.signal.aborted || res.writableEnded) return;
    // An answer that has begun cannot become another one.
    if (res.headersSent) res.destroy();
    else if (isTimeout(error)) exchange.late(error);
    else refuse(asError(error));
  });
}

/** Express goes on to the next route for null, undefined, 0, '' and 'route'. */
function asError(thrown: unknown): unknown {
  if (typeof thrown === 'object' && thrown !== null) return thrown;
  return new Error(textOf(thrown), { cause: thrown });
}

/**
 * Answers an error as JSON, with `Retry-After` where it is known: `app.use(failures)`, behind all
 * routes. Unexpected errors are written to stderr. One that comes when the request is over, such as
 * that of a handler past its deadline, is left alone.
 */
export function failures(
  error: unknown,
  req: IncomingMessage,
  res: ServerResponse,
  // Express knows an error handler by its four parameters.
  _next?: Next | undefined,
): void {
  if (res.writableEnded || res.destroyed) return;
  const failure = failureOf(error);
  if (failure.isUnexpected) console.error(error);
  if (res.headersSent) {
    res.destroy();
    return;
  }
  for (const name of ['content-encoding', 'etag', 'last-modified']) res.removeHeader(name);
  const body = failureBody(failure);
  const length = Buffer.byteLength(body);
  const type = { 'content-type': failureType, 'content-length': length };
  res.writeHead(failure.status, { ...failure.headers, 'cache-control': 'no-store', ...type });
  res.end(req.method === 'HEAD' ? undefined : body);
}
