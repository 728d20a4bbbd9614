import type { Transfer, WorkerContext } from './thread/worker-context.ts';

/** A handler: each function that a worker module exports, but for `setup` and `teardown`. */
// biome-ignore lint/suspicious/noExplicitAny: a handler may take and give anything.
type Handler = (input: any, context: any) => unknown;

type HandlerName<Module> = {
  [Name in keyof Module]: Name extends 'setup' | 'teardown'
    ? never
    : Module[Name] extends Handler
      ? Name
      : never;
}[keyof Module] &
  string;

type Result<Given> = Given extends Handler ? Awaited<ReturnType<Given>> : never;

/** The names of the handlers that give one result: `run` takes these. */
export type RunName<Module> = {
  [Name in HandlerName<Module>]: [Result<Module[Name]>] extends [never]
    ? Name
    : Result<Module[Name]> extends AsyncIterable<unknown>
      ? never
      : Name;
}[HandlerName<Module>];

/** The names of the handlers that give many results: `stream` takes these. */
export type StreamName<Module> = Exclude<HandlerName<Module>, RunName<Module>>;

/** The input of a handler; `undefined` for one that takes nothing. */
export type InputOf<Given> = Given extends Handler
  ? Parameters<Given> extends [infer Input, ...unknown[]]
    ? Input
    : undefined
  : never;

type Moved<T> = T extends Transfer<infer Value> ? Value : T;

/** The result that a handler's caller gets. */
export type OutputOf<Given> = Moved<Result<Given>>;

/** The chunks that a streaming handler's caller gets. */
export type ChunkOf<Given> =
  Result<Given> extends AsyncIterable<infer Chunk> ? Moved<Chunk> : never;

/** The snapshot that the handlers of a module expect, as far as they say. */
export type StateOf<Module> = {
  [Name in HandlerName<Module>]: Module[Name] extends (
    // biome-ignore lint/suspicious/noExplicitAny: only the context matters here.
    input: any,
    // biome-ignore lint/suspicious/noExplicitAny: only the snapshot matters here.
    context: WorkerContext<any, infer State>,
  ) => unknown
    ? unknown extends State
      ? never
      : State
    : never;
}[HandlerName<Module>] extends infer State
  ? [State] extends [never]
    ? unknown
    : State
  : never;
