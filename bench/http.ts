import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { atMost, type Bench, type Contestant, type Figure, type Run, times } from './contest.ts';

/** The load that the client process has to make. */
export interface Load {
  readonly port: number;
  readonly connections: number;
  readonly ms: number;
  readonly kind: 'GET' | 'POST' | 'refusal';
}

const cost = { name: 'CPU per request', unit: 'us', better: 'less' } as const;
const connections = 16;
/** Short, so that both contenders of a round meet the same noise. */
const stretchMs = 150;
const warmRequests = 25_000;

function run(name: Load['kind'], targets: Figure['targets']): Run {
  return { name, rounds: 9, isPaired: true, figures: [{ ...cost, targets }] };
}

/**
 * The cost of `createServer` with all default guards on, against Fastify without any: a GET and a
 * POST of small JSON, and a refusal (a full lane, against a 503 written by hand).
 */
export const http: Bench = {
  contenders: {
    'spillway createServer': async () => contestant((await import('./http/ours.ts')).server),
    'bare Fastify': async () => contestant((await import('./http/fastify.ts')).bare),
  },
  yardsticks: [],
  // Medians of many rounds differ from process to process: 0.73, 0.83 and 1.00 for GET (2026-11).
  processes: 5,
  runs: [run('GET', [times(0.8)]), run('POST', [times(0.9)]), run('refusal', [atMost(45, 'us')])],
};

/** A server with the three routes; the last one refuses each request. */
export type Open = (declare: (app: FastifyInstance) => void) => Promise<FastifyInstance>;

/** The server runs in this process and the client in one of its own, each on its core. */
async function contestant(open: Open): Promise<Contestant> {
  const app = await open((declared) => {
    declared.get('/sum', { schema: { response: sum } }, async () => ({ sum: 5 }));
    declared.post('/sum', { schema: { body, response: sum } }, async (request) => {
      const { a, b } = request.body as { a: number; b: number };
      return { sum: a + b };
    });
  });
  const { port } = app.server.address() as AddressInfo;
  const client = fork(join(import.meta.dirname, 'http', 'client.ts'));
  process.once('exit', () => client.kill());
  let requests = 0;
  const measure = async (kind: Load['kind'], ms: number): Promise<Record<string, number>> => {
    const load: Load = { port, connections, ms, kind };
    const before = process.cpuUsage();
    client.send(load);
    const [count] = (await once(client, 'message')) as [number];
    const { user, system } = process.cpuUsage(before);
    requests += count;
    return { [cost.name]: (user + system) / count };
  };
  const warm = new Set<string>();
  return async (name, quick) => {
    const kind = name as Load['kind'];
    // Warms up by requests and not by time: on a busy machine a second is not enough to compile.
    const until = warm.has(kind) ? 0 : requests + (quick ? 2_000 : warmRequests);
    warm.add(kind);
    while (requests < until) await measure(kind, stretchMs);
    return measure(kind, stretchMs);
  };
}

const number = { type: 'number' } as const;
const sum = { 200: { type: 'object', properties: { sum: number } } };
const body = {
  type: 'object',
  required: ['a', 'b'],
  additionalProperties: false,
  properties: { a: number, b: number },
};
