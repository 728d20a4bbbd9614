import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { type Bench, type Contestant, times } from './contest.ts';

/** What the client process is asked to do. */
export interface Load {
  readonly port: number;
  readonly connections: number;
  readonly ms: number;
}

const rate = { name: 'requests', unit: '/s', better: 'more' } as const;
const cost = { name: 'CPU per request', unit: 'us', better: 'less' } as const;
const connections = 64;

/**
 * What a lane costs on a small JSON POST: permit, deadline and meters, with the loop time of each
 * route measured. `createServer` has all other guards and five more headers to send besides.
 */
export const http: Bench = {
  contenders: {
    'spillway admission': async () => contestant((await import('./http/ours.ts')).admitted),
    'spillway createServer': async () => contestant((await import('./http/ours.ts')).server),
    'bare Fastify': async () => contestant((await import('./http/fastify.ts')).bare),
  },
  yardsticks: ['spillway createServer'],
  runs: [
    {
      name: 'small JSON POST',
      rounds: 5,
      figures: [
        { ...rate, targets: [times(0.9, 'bare Fastify')] },
        { ...cost, targets: [] },
      ],
    },
  ],
};

/** The server runs in this process, on its core, the client in one of its own. */
async function contestant(open: () => Promise<FastifyInstance>): Promise<Contestant> {
  const app = await open();
  app.post('/sum', route, async (request) => {
    const { a, b } = request.body as { a: number; b: number };
    return { sum: a + b };
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const client = fork(join(import.meta.dirname, 'http', 'client.ts'));
  process.once('exit', () => client.kill());
  const measure = async (ms: number): Promise<Readonly<Record<string, number>>> => {
    const before = process.cpuUsage();
    const load: Load = { port, connections, ms };
    client.send(load);
    const [count] = (await once(client, 'message')) as [number];
    const { user, system } = process.cpuUsage(before);
    return { [rate.name]: (count * 1_000) / ms, [cost.name]: (user + system) / count };
  };
  await measure(500);
  return (_run, quick) => measure(quick ? 500 : 2_000);
}

const number = { type: 'number' } as const;
const route = {
  schema: {
    body: {
      type: 'object',
      required: ['a', 'b'],
      additionalProperties: false,
      properties: { a: number, b: number },
    },
    response: { 200: { type: 'object', properties: { sum: number } } },
  },
};
