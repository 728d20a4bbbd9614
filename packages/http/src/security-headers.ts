import type { FastifyPluginAsync } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

export interface SecurityHeadersOptions {
  /** What pages may load. @default "default-src 'self'" */
  readonly contentSecurityPolicy?: string | undefined;
}

const plugin: FastifyPluginAsync<SecurityHeadersOptions> = async (app, options) => {
  const { contentSecurityPolicy = "default-src 'self'" } = options;
  const headers = {
    'content-security-policy': contentSecurityPolicy,
    'referrer-policy': 'strict-origin-when-cross-origin',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
  const secured = { ...headers, 'strict-transport-security': 'max-age=31536000' };
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(request.protocol === 'https' ? secured : headers);
    done();
  });
};

/** Tells browsers to be careful: no sniffing, no frames, own content only, https from then on. */
export const securityHeaders: FastifyPluginAsync<SecurityHeadersOptions> = fastifyPlugin(plugin, {
  name: 'spillway-security-headers',
  fastify: '5.x',
});
