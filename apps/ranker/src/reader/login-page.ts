import type { FastifyReply } from 'fastify';
import { type Html, html } from 'spillway-http';
import { frame, tokenField } from './frame.ts';

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
<input id="key" name="key" type="password" required maxlength="200" autocomplete="current-password"
 aria-describedby="${complaint === undefined ? undefined : 'wrong'}" autofocus>
<label class="tick"><input type="checkbox" name="remember" value="yes" checked>
Stay logged in for 30 days</label>
<button class="main">Log in</button></form></section>`;
  return frame(reply, { title: 'Log in', body });
}
