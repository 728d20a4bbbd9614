import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

export interface SecurityHeadersOptions {
  /** What pages may load. @default "default-src 'self'" */
  readonly contentSecurityPolicy?: string | undefined;
}

/** Sets the headers that make browsers careful. */
export function careful({
  contentSecurityPolicy = "default-src 'self'",
}: SecurityHeadersOptions): (reply: FastifyReply) => void {
  const headers = {
    'content-security-policy': contentSecurityPolicy,
    'referrer-policy': 'strict-origin-when-cross-origin',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
  const secured = { ...headers, 'strict-transport-security': 'max-age=31536000' };
  return (reply) => {
    reply.headers(reply.request.protocol === 'https' ? secured : headers);
  };
}

const plugin: FastifyPluginAsync<SecurityHeadersOptions> = async (app, options) => {
  const setHeaders = careful(options);
  app.addHook('onRequest', (_request, reply, done) => {
    setHeaders(reply);
    done();
  });
};

/** Tells browsers to be careful: no sniffing, no frames, own content only, https from then on. */
export const securityHeaders: FastifyPluginAsync<SecurityHeadersOptions> = fastifyPlugin(plugin, {
  name: 'spillway-security-headers',
  fastify: '5.x',
});
