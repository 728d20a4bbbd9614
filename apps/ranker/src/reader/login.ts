import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { type Html, html } from 'spillway-http';
import { logIn, sessionUser } from '../server/access.ts';
import type { RankerContext } from '../server/context.ts';
import { frame, tokenField } from './frame.ts';

const login = {
  type: 'object',
  required: ['key'],
  properties: {
    key: { type: 'string', minLength: 1, maxLength: 200 },
    remember: { const: 'yes' },
  },
} as const;

/** Logging in with an API key, and out. */
export const loginRoutes: FastifyPluginAsync<Pick<RankerContext, 'storage'>> = async (
  app,
  { storage },
) => {
  app.get('/reader/login', (request, reply) => {
    if (sessionUser(request) !== undefined) return reply.redirect('/reader', 303);
    return reply.send(loginPage(reply));
  });

  app.post<{ Body: { key: string; remember?: string } }>(
    '/reader/login',
    { schema: { body: login } },
    async (request, reply) => {
      const { key, remember } = request.body;
      const user = await storage.users.byKey(key.trim(), request.permit.signal);
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

/** Asks for the API key; with a complaint after a wrong one. */
export function loginPage(reply: FastifyReply, complaint?: string): Html {
  const body = html`<section class="card login"><h1>Log in</h1>
<p>Your API key was shown when your user was made.</p>
${
  complaint !== undefined &&
  html`<p id="wrong" class="flash flash-error" role="alert">
${complaint}</p>`
}
<form method="post" action="/reader/login">${tokenField(reply.csrfToken())}
<label for="key">API key</label>
<input class="input" id="key" name="key" type="password" required maxlength="200"
 autocomplete="current-password"
 aria-describedby="${complaint === undefined ? undefined : 'wrong'}" autofocus>
<label class="tick"><input type="checkbox" name="remember" value="yes" checked>
Stay logged in for 30 days</label>
<button class="button main">Log in</button></form></section>`;
  return frame(reply, { title: 'Log in', body });
}
