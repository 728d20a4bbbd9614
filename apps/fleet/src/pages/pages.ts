import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FastifyPluginAsync } from 'fastify';
import { Bucket } from 'spillway';
import { assets, sessionOf } from 'spillway-http';
import type { Context } from '../context.ts';
import { accountPages } from './account.ts';
import { Ancestry } from './ancestry.ts';
import { calculatorPages } from './calculator.ts';
import { contributorPages } from './contributor-list.ts';
import { eventPages } from './events.ts';
import { Figures } from './figures.ts';
import { samplePages } from './first-steps.ts';
import { homePage, homePages } from './home.ts';
import { loginPages, typedIn } from './login.ts';
import { machinePages } from './machines.ts';
import { netPages, netUpload } from './net-list.ts';
import { peoplePages } from './people.ts';
import { rememberChoices } from './remembered.ts';
import { addPage, type Pages, pageErrors } from './routes.ts';
import { runActionPages } from './run/actions.ts';
import { runPages } from './run/page.ts';
import { submitPages } from './submit.ts';
import { type PageSession, userOfSession, Visit } from './visit.ts';

/** Everything that pages use. */
export type PageContext = ReturnType<typeof pageContext>;

function pageContext(parts: Context) {
  const { clock } = parts;
  return {
    ...parts,
    figures: new Figures(parts),
    ancestry: new Ancestry(parts),
    /** Bounds how many accounts people without one can make. */
    signUps: new Bucket({ ratePerSecond: 0.2, burst: 10, queueMax: 0, clock }),
    /** Address of the style sheet, and of the script of the calculator. */
    style: staticUrl('fleet.css'),
    calculator: staticUrl('calculator.js'),
  };
}

/** All pages but those that change while they are open, and the upload of nets. */
const pages: Pages = {
  ...loginPages,
  ...accountPages,
  ...homePages,
  ...samplePages,
  ...runActionPages,
  ...submitPages,
  ...eventPages,
  ...contributorPages,
  ...peoplePages,
  ...machinePages,
  ...calculatorPages,
  ...netPages,
};

const folder = fileURLToPath(new URL('./browser/', import.meta.url));

/** Every page for people, with the addresses and fields that users of fishtest know. */
export const fleetPages: FastifyPluginAsync<Context> = async (app, options) => {
  const context = pageContext(options);
  await app.register(assets, { root: folder, prefix: '/static/' });
  await app.register(async (scope) => {
    scope.decorateRequest('person', null);
    scope.addHook('preHandler', async (request, reply) => {
      rememberChoices(request, reply);
      const session = sessionOf<PageSession>(request);
      if (session.get('user') === undefined) return;
      request.person = (await userOfSession(options.users, session)) ?? null;
      if (request.person !== null) return;
      session.clear();
      // A form that was filled in is kept until its sender has logged in again.
      if (typedIn(new Visit(context, request, reply)).length > 0) return;
      if (request.method !== 'GET' || request.url !== '/tests')
        return reply.redirect('/tests', 302);
    });
    pageErrors(scope, context);
    for (const [url, page] of Object.entries(pages)) addPage(scope, context, url, page);
    homePage(scope, context);
    runPages(scope, context);
    await scope.register(netUpload, context);
  });
};

/** The address of a static file, which changes with its content. */
function staticUrl(name: string): string {
  const digest = createHash('sha384')
    .update(readFileSync(`${folder}${name}`))
    .digest('base64url');
  return `/static/${name}?x=${digest}`;
}
