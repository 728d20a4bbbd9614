import type { FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/** A Fastify plugin whose hooks and decorators are those of the scope that registers it. */
export function plugin<Options extends object = Record<never, never>>(
  name: string,
  register: FastifyPluginAsync<Options>,
  dependencies: string[] = [],
): FastifyPluginAsync<Options> {
  return fastifyPlugin(register, { name: `spillway-${name}`, fastify: '5.x', dependencies });
}
