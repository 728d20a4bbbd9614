import { onceAborted } from '../base/abort.ts';
import type { Lane } from '../lane/lane.ts';
import { entering } from '../wait/wait-queue.ts';
import { failureBody, failureOf, failureType } from './failure.ts';
import { LastStretch } from './loop-watch.ts';
import {
  type AdmissionOptions,
  checkAdmitted,
  clientGone,
  handleWithin,
  settleAdmission,
} from './visit.ts';

/** The part of Hono's context that an admission needs. */
interface Context {
  readonly req: { readonly raw: Request };
  readonly res: Response;
}

/**
 * Middleware for Hono: lets each request into the lane or answers 503 at once, 504 at the deadline.
 * The permit is held until the response is made; its body may flow for longer.
 * `app.use('/quotes/*', admission({ lane }));`
 */
export function admission(
  options: AdmissionOptions<Request>,
): (context: Context, next: () => Promise<void>) => Promise<Response> {
  const admit = admitter(options);
  return (context, next) =>
    admit(context.req.raw, async () => {
      await next();
      return context.res;
    });
}

/**
 * A handler in its lane, for every framework whose handlers make a `Response` of a `Request`; what
 * else the framework passes comes after the signal.
 */
export function admitted<Rest extends readonly unknown[]>(
  lane: Lane,
  handler: (request: Request, signal: AbortSignal, ...rest: Rest) => Response | Promise<Response>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  checkAdmitted(lane, handler);
  const admit = admitter({ lane });
  return (request, ...rest) =>
    admit(request, async (signal) => await handler(request, signal, ...rest));
}

/** The answer to an error; in Hono `app.onError(failures)`. Unexpected ones go to stderr. */
export function failures(error: unknown): Response {
  const failure = failureOf(error);
  if (failure.isUnexpected && error !== clientGone) console.error(error);
  const { status, headers } = failure;
  const all = { ...headers, 'cache-control': 'no-store', 'content-type': failureType };
  return new Response(failureBody(failure), { status, headers: all });
}

function admitter(options: AdmissionOptions<Request>) {
  const { lane, keyOf } = settleAdmission(options);
  const stretch = new LastStretch();
  return async (
    request: Request,
    handler: (signal: AbortSignal) => Promise<Response>,
  ): Promise<Response> => {
    const client = new AbortController();
    // Servers abort with reasons of their own, and some are no errors at all.
    void onceAborted(request.signal).then(() => client.abort(clientGone));
    try {
      if (request.signal.aborted) throw clientGone;
      const permit = await entering(lane, { signal: client.signal, key: keyOf(request) });
      return await handleWithin(permit, stretch, request, handler);
    } catch (error) {
      return failures(error);
    }
  };
}
