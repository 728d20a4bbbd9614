import type { Server } from 'node:http';

/** A piece of work that a tracer may put into a span. */
export interface Traced {
  readonly name: 'lane.wait' | 'pool.task' | 'store.commit' | 'outbound.call';
  readonly attributes: Readonly<Record<string, string | number>>;
}

/** The tracer of the process, as the parts call it; `spillway/opentelemetry` installs one. */
export interface Tracer {
  span<T>(what: Traced, work: () => Promise<T>): Promise<T>;
  /** Sends a request in a span of its own, with the headers that tell the other side of it. */
  send(
    request: Request,
    resends: number,
    work: (request: Request) => Promise<Response>,
  ): Promise<Response>;
  /** Puts the work for each request of a server into a span. */
  listen(server: Server): void;
}

/** Holds the tracer, if any. Without one, tracing costs a part one comparison. */
export const tracing: { tracer: Tracer | undefined } = { tracer: undefined };

/** Commits to a store, within a span if somebody traces. */
export function tracedCommit<T>(
  system: string,
  changes: number,
  work: () => Promise<T>,
): Promise<T> {
  const { tracer } = tracing;
  if (tracer === undefined) return work();
  const attributes = {
    'db.system.name': system,
    'db.operation.name': 'commit',
    'db.operation.batch.size': changes,
  };
  return tracer.span({ name: 'store.commit', attributes }, work);
}
