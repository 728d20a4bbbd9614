import fastify, { type FastifyInstance } from 'fastify';

export async function bare(): Promise<FastifyInstance> {
  return fastify();
}
