import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { nextTurn } from 'spillway/internal';
import { refuseBody } from 'spillway-http';

/** Seconds since the request came. */
export function durationOf(reply: FastifyReply): number {
  // There is none yet while the server stops.
  const { permit } = reply.request;
  return permit === undefined ? 0 : Math.round(permit.elapsedMs * 1000) / 1e6;
}

/** The address by which a client reached the server, without a slash at the end. */
export function baseOf({ protocol, host }: FastifyRequest): string {
  return `${protocol}://${host}`;
}

/** `/api/beat`, without what follows a question mark. */
export function pathOf({ url }: FastifyRequest): string {
  return url.split('?', 1)[0] as string;
}

/** Headers of the intended answer, which a failure must not have. */
const headersOfAnswer = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'etag',
  'last-modified',
];

/** Sends failures of the routes in this scope in the form of the API, with its `duration`. */
export function apiErrors(app: FastifyInstance): void {
  app.setErrorHandler((error, _request, reply) => {
    if (reply.sent || reply.raw.destroyed) return;
    const { status, message, isUnexpected, headers } = app.noteFailure(error, reply);
    for (const name of headersOfAnswer) reply.removeHeader(name);
    reply.code(status).headers(headers);
    const body = failureBody(reply, message);
    reply.send(isUnexpected ? { detail: 'Internal Server Error' } : body);
  });
}

function failureBody(reply: FastifyReply, message: string): object {
  return { error: `${pathOf(reply.request)}: ${message}`, duration: durationOf(reply) };
}

/** UNIX milliseconds as `2026-11-15 20:54:01.533000+00:00`; no fraction if there is none. */
export function dateText(ms: number): string {
  const [day, time = ''] = new Date(Math.floor(ms)).toISOString().slice(0, -1).split('T');
  const [seconds, fraction] = time.split('.');
  return `${day} ${seconds}${fraction === '000' ? '' : `.${fraction}000`}+00:00`;
}

/** Characters of a chunk: 0.2 ms of work for usual runs (2026-11). */
const chunkSize = 16_384;

/** `{"key":value,…}` in chunks; the event loop turns after each. */
export async function* jsonObject(
  entries: Iterable<readonly [key: string, value: object]>,
): AsyncGenerator<string> {
  let chunk = '{';
  let separator = '';
  for (const [key, value] of entries) {
    chunk += `${separator}${JSON.stringify(key)}:${JSON.stringify(value)}`;
    separator = ',';
    if (chunk.length < chunkSize) continue;
    yield chunk;
    chunk = '';
    await new Promise<void>(nextTurn);
  }
  yield `${chunk}}`;
}

/** Other methods than these on these paths: 405, before any body is read. */
export function refuseOtherMethods(
  app: FastifyInstance,
  urls: readonly string[],
  allowed: readonly string[],
): void {
  const refuse = async (_request: FastifyRequest, reply: FastifyReply) => {
    const allow = allowed.join(', ');
    refuseBody(reply);
    return reply.code(405).header('allow', allow).send({ detail: 'Method Not Allowed' });
  };
  const method = app.supportedMethods.filter((one) => !allowed.includes(one));
  const config = { bodyTypes: 'any' } as const;
  for (const url of urls) app.route({ method, url, config, onRequest: refuse, handler: refuse });
}

/** Answers 404 to unknown paths, before any body is read. */
export function answerUnknownPaths(app: FastifyInstance): void {
  const answer = async (_request: FastifyRequest, reply: FastifyReply) => {
    refuseBody(reply);
    return reply.code(404).send({ detail: 'Not Found' });
  };
  const hooks = { onRequest: answer, preHandler: [] };
  app.setNotFoundHandler(hooks, answer);
}

/** The parameters of an address, each as one text. */
export type QueryTexts = Readonly<Record<string, string | undefined>>;

/** Reads the parameters of an address; of a repeated one the last counts. */
export function queryTexts(query: unknown): QueryTexts {
  const entries = Object.entries(Object(query) as Record<string, string | string[]>);
  return Object.fromEntries(entries.map(([name, value]) => [name, [value].flat().at(-1)]));
}
