import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { FastifyInstance } from 'fastify';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** The port that a server listens on. */
export function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** Asks over a connection of its own, to a Unix socket if one is given, with just these headers. */
export async function ask(
  url: string,
  headers: Readonly<Record<string, string>> = {},
  socketPath?: string,
): Promise<Answer> {
  const asked = request(url, { headers, agent: false, socketPath });
  asked.end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    text: await text(answer),
  };
}
