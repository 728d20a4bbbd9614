import type { FastifyPluginAsync } from 'fastify';
import { loginPage } from './login-page.ts';
import { isKnown, logIn } from './reader-session.ts';
import type { ReaderStore } from './reader-store.ts';

export interface LoginRoutesOptions {
  readonly store: Pick<ReaderStore, 'userOf'>;
}

const login = {
  type: 'object',
  required: ['key'],
  properties: {
    key: { type: 'string', minLength: 1, maxLength: 200 },
    remember: { const: 'yes' },
  },
} as const;

/** Logging in with an API key, and out. */
export const loginRoutes: FastifyPluginAsync<LoginRoutesOptions> = async (app, { store }) => {
  app.get('/reader/login', (request, reply) => {
    if (isKnown(request)) return reply.redirect('/reader', 303);
    return reply.send(loginPage(reply));
  });

  app.post<{ Body: { key: string; remember?: string } }>(
    '/reader/login',
    { schema: { body: login } },
    async (request, reply) => {
      const { key, remember } = request.body;
      const user = await store.userOf(key.trim(), request.permit.signal);
      if (user === undefined) {
        const complaint = 'No user has this key.';
        return reply.code(401).send(loginPage(reply, complaint));
      }
      logIn(request, user, remember === 'yes');
      return reply.redirect('/reader', 303);
    },
  );

  app.post('/reader/logout', (request, reply) => {
    request.session.clear();
    return reply.redirect('/reader/login', 303);
  });
};
