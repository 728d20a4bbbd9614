import { untilAborted } from '../base/abort.ts';
import { callback, type Filled, laneRule, or, settle } from '../base/options.ts';
import type { Task } from '../base/task.ts';
import type { Lane } from '../lane/lane.ts';
import { holdDuring, outcomeOf, type Permit, signalFor } from '../lane/permit.ts';
import { nextTurn } from '../wait/turn-budget.ts';
import { type LastStretch, loopWatch } from './loop-watch.ts';

export interface AdmissionOptions<Request extends object> {
  /** The lane that the requests go through. */
  readonly lane: Lane;
  /** Fairness key of a request: clients that wait are served in turn. @default one for all */
  readonly keyOf?: ((request: Request) => string | undefined) | undefined;
}

/** The reason of a signal whose client has left before its answer. */
export const clientGone: DOMException = new DOMException('the client has gone', 'AbortError');

const signals = new WeakMap<object, AbortSignal>();

/**
 * The signal of a request that was admitted: it aborts at the lane's deadline and when the client
 * has gone. Give it to all that may wait.
 */
export function signalOf(request: object): AbortSignal {
  const signal = signals.get(request);
  if (signal === undefined) throw new Error('the request has not been through an admission');
  return signal;
}

export function settleAdmission<Request extends object>(
  options: AdmissionOptions<Request>,
): Filled<AdmissionOptions<Request>> {
  return settle('admission', options, {
    lane: laneRule,
    keyOf: or(callback, (_request: Request): string | undefined => undefined),
  });
}

/** Checks the arguments of `admitted`. */
export function checkAdmitted(lane: unknown, handler: unknown): void {
  const rules = { lane: laneRule, handler: callback };
  settle<{ lane: unknown; handler: unknown }, typeof rules>('admitted', { lane, handler }, rules);
}

/**
 * Runs the handler of an admitted request. It rejects at once when the deadline passes; the permit
 * is held until the handler has ended, and the status of its answer becomes the outcome.
 */
export function handleWithin<T extends { readonly status: number }>(
  permit: Permit,
  stretch: LastStretch,
  request: object,
  handler: Task<T>,
): Promise<T> {
  const signal = signalFor(permit);
  signals.set(request, signal);
  const handled = holdDuring(
    permit,
    async () => {
      loopWatch.mark();
      const answering = handler(signal);
      const firstMs = loopWatch.stretch();
      const answer = await answering;
      const computedMs = stretch.learn(loopWatch.stretch());
      permit.loopMs = Math.max(firstMs, computedMs);
      permit.outcome = outcomeOf(answer);
      permit.isWhole = permit.outcome === 'ok' && !signal.aborted;
      if (computedMs > 0) await new Promise<void>((resolve) => nextTurn(resolve));
      return answer;
    },
    signal,
  );
  return untilAborted(handled, signal);
}
