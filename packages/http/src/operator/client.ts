import { request } from 'node:http';
import { text } from 'node:stream/consumers';

export interface OperatorCall {
  /** The socket of the server: `operatorSocket(dataFolder)`. */
  readonly socket: string;
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

/**
 * Asks a running server of this machine as its operator; rejects with `ENOENT` or `ECONNREFUSED`
 * when no server listens there.
 */
export async function askOperator(call: OperatorCall): Promise<OperatorAnswer> {
  const { socket: socketPath, path, body, signal } = call;
  const { method = body === undefined ? 'GET' : 'POST' } = call;
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const headers = sent === undefined ? {} : { 'content-type': 'application/json' };
  const { promise, resolve, reject } = Promise.withResolvers<OperatorAnswer>();
  const asked = request({
    socketPath,
    path,
    method,
    headers,
    agent: false,
    ...(signal && { signal }),
  });
  asked.once('error', reject);
  asked.once('response', (answer) => {
    const { statusCode: status = 0 } = answer;
    text(answer).then((all) => resolve({ status, text: all }), reject);
  });
  asked.end(sent);
  return await promise;
}
