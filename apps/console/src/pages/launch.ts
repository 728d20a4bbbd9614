import type { FastifyInstance, FastifyReply } from 'fastify';
import { type Html, html } from 'spillway-http';
import { button, card, hiddenFields, notice, pageHead, table } from 'spillway-http/kit';
import type { Launcher, Login } from '../launcher.ts';
import { type FrameOptions, sendPage } from './frame.ts';

const path = '/launch';
const demoText =
  'Simulated workers on a sequential test of fleet, a harvest from an exchange that fails ' +
  'often, and a reader who rates articles. None of it is real.';

/** The lines of the first page about the demo and about logins that nobody has seen yet. */
export function launchNotices(launcher: Launcher | undefined): Html {
  if (launcher?.isThere !== true) return html``;
  const logins =
    launcher.logins.length > 0 &&
    notice({
      verdict: 'This is the first start.',
      text: 'The first logins of the services are shown once.',
      action: button({ label: 'Show them…', href: path, look: 'main', little: true }),
    });
  const demo =
    launcher.isDemo &&
    notice({
      verdict: 'Demo traffic.',
      text: demoText,
      action: button({ label: 'Stop…', href: path, little: true }),
    });
  return html`${logins}${demo}`;
}

/** The link to the demo, while there is no traffic. */
export function demoLink(launcher: Launcher | undefined): Html {
  if (launcher?.isThere !== true || launcher.isDemo) return html``;
  return html`<p>${button({ label: 'Demo traffic…', href: path, little: true })}</p>`;
}

/** The page with first logins, and the switch of the demo. */
export function addLaunch(app: FastifyInstance, options: FrameOptions): void {
  const { view } = options;
  app.get(path, async (_request, reply) => {
    const { launcher } = view();
    if (launcher?.isThere !== true) return reply.redirect('/', 303);
    const main = launchView(launcher, reply);
    return sendPage(reply, { title: 'First logins and demo', main }, options);
  });
  app.post(path, async (request, reply) => {
    const { action } = Object(request.body);
    const { launcher } = view();
    if (action === 'forget') launcher?.forgetLogins();
    else launcher?.setDemo(action === 'start');
    return reply.redirect('/', 303);
  });
}

function launchView({ isDemo, logins }: Launcher, reply: FastifyReply): Html {
  const form = (action: string, label: string) => html`<form method="post" action="${path}">
${hiddenFields({ _csrf: reply.csrfToken(), action })}
<div class="row">${button({ label, look: 'main' })}</div></form>`;
  const first =
    logins.length > 0 &&
    card({
      id: 'logins',
      title: 'First logins',
      about: 'they are not stored anywhere: note them',
      body: html`${loginTable(logins)}${form('forget', 'I have noted them')}`,
    });
  const switchForm = isDemo
    ? form('stop', 'Stop demo traffic')
    : form('start', 'Start demo traffic');
  const demo = card({
    id: 'demo',
    title: isDemo ? 'Demo traffic runs' : 'Demo traffic',
    body: html`<div class="stack"><p>${demoText}</p>${switchForm}</div>`,
  });
  const head = pageHead({ title: 'First logins and demo' });
  return html`<div class="stack">${head}${first}${demo}</div>`;
}

function loginTable(logins: readonly Login[]): Html {
  return table({
    label: 'First logins',
    rows: logins,
    columns: [
      { name: 'Service', cell: ({ service }) => service },
      { name: 'User', cell: ({ user }) => user },
      { name: 'Password or key', cell: secretOf, fold: 'named' },
    ],
  });
}

function secretOf({ secret }: Login): Html {
  return html`<code class="secret">${secret}</code>`;
}
