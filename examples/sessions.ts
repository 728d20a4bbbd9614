// Sessions in signed cookies, with protection against forged requests, in a few lines.
import { randomBytes } from 'node:crypto';
import { createServer, html, page, sessionOf } from 'spillway-http';

interface Login {
  readonly user: string;
}

await using server = await createServer({ sessions: { keys: [randomBytes(32).toString('hex')] } });
const { app } = server;
app.get('/login', (_request, reply) => {
  const form = html`<form method="post"><input name="_csrf" value="${reply.csrfToken()}"></form>`;
  return reply.type('text/html').send(String(page({ title: 'Log in', body: form })));
});
app.post('/login', async (request) => {
  const session = sessionOf<Login>(request);
  session.regenerate(); // A session id from before the login must not be that of the user.
  session.set('user', 'ann');
  return { welcome: session.get('user') };
});
app.get('/me', async (request) => ({ user: sessionOf<Login>(request).get('user') ?? 'nobody' }));
await server.start();

const cookiesOf = (answer: Response) =>
  answer.headers.getSetCookie().map((cookie) => cookie.split(';')[0]);
const shown = await fetch(`${server.url}/login`);
const token = /name="_csrf" value="([^"]+)"/.exec(await shown.text())?.[1] ?? '';
let cookie = cookiesOf(shown).join('; ');
const send = (body: URLSearchParams) =>
  fetch(`${server.url}/login`, { method: 'POST', headers: { cookie }, body });

console.log('forged:', (await send(new URLSearchParams())).status);
const entered = await send(new URLSearchParams({ _csrf: token }));
console.log('logged in:', entered.status, await entered.json());
cookie = cookiesOf(entered).join('; ');
console.log(await (await fetch(`${server.url}/me`, { headers: { cookie } })).json());
