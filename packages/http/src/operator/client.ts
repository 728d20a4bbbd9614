import { type IncomingMessage, request } from 'node:http';
import { request as requestSecurely } from 'node:https';

/** The place of an operator interface: a socket of this machine, or a port and its token. */
export interface OperatorPlace {
  /** The socket of the server: `operatorSocket(dataFolder)`. @default none: `url` is asked */
  readonly socket?: string | undefined;
  /** The address of `operator.remote`, like `http://10.0.0.7:9000`. @default none */
  readonly url?: string | undefined;
  /** The token of `operator.remote`. @default none */
  readonly token?: string | undefined;
}

/** One call of an operator interface. */
export interface OperatorCall extends OperatorPlace {
  /** The path of the endpoint, like `/-/stats`. */
  readonly path: string;
  /** @default 'GET', or 'POST' with a body */
  readonly method?: string | undefined;
  /** Sent as JSON. @default none */
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

/** The answer of a server to its operator. */
export interface OperatorAnswer {
  readonly status: number;
  readonly text: string;
}

/** The longest answer, in bytes: the stats of a thousand lanes have one million. */
const answerBytesMax = 32 * 1_048_576;

/**
 * Asks a running server as its operator; rejects with `ENOENT` or `ECONNREFUSED`
 * when no server listens there.
 */
export async function askOperator(call: OperatorCall): Promise<OperatorAnswer> {
  const { socket: socketPath, url = 'http://localhost', token, path, body, signal } = call;
  const { method = body === undefined ? 'GET' : 'POST' } = call;
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const address = new URL(path, url);
  const { promise, resolve, reject } = Promise.withResolvers<OperatorAnswer>();
  const ask = address.protocol === 'https:' ? requestSecurely : request;
  const asked = ask(address, { socketPath, method, agent: false, ...(signal && { signal }) });
  if (token !== undefined) asked.setHeader('authorization', `Bearer ${token}`);
  if (sent !== undefined) asked.setHeader('content-type', 'application/json');
  asked.once('error', reject);
  asked.once('response', (answer) => {
    const { statusCode: status = 0 } = answer;
    textOf(answer).then((text) => resolve({ status, text }), reject);
  });
  asked.end(sent);
  return await promise;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer) {
    length += chunk.length;
    if (length > answerBytesMax) throw new Error(`sends more than ${answerBytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
