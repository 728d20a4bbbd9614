import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FastifyPluginAsync } from 'fastify';
import { assets, sessionOf } from 'spillway-http';
import type { Context } from '../context.ts';
import { accountPages } from './account.ts';
import { Ancestry } from './ancestry.ts';
import { calculatorPages } from './calculator.ts';
import { contributorPages } from './contributors.ts';
import { eventPages } from './events.ts';
import { Figures } from './figures.ts';
import { homePages } from './home.ts';
import { machinePages } from './machines.ts';
import { netPages } from './nets.ts';
import { peoplePages } from './people.ts';
import { rememberChoices } from './remembered.ts';
import { runActions } from './run-actions.ts';
import { runPages } from './run-page.ts';
import { submitPages } from './submit.ts';
import { type PageSession, pageErrors, userOfSession } from './visit.ts';

/** The parts that pages are made from. */
export interface PageContext extends Context {
  readonly figures: Figures;
  readonly ancestry: Ancestry;
  /** Address of the style sheet. */
  readonly style: string;
}

const folder = fileURLToPath(new URL('./browser/', import.meta.url));

/** Every page for people, with the addresses and fields that users of fishtest know. */
export const fleetPages: FastifyPluginAsync<Context> = async (app, options) => {
  const figures = new Figures(options);
  const ancestry = new Ancestry(options);
  const context: PageContext = { ...options, figures, ancestry, style: staticUrl('fleet.css') };
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
      if (request.method !== 'GET' || request.url !== '/tests')
        return reply.redirect('/tests', 302);
    });
    pageErrors(scope, context);
    accountPages(scope, context);
    homePages(scope, context);
    runPages(scope, context);
    runActions(scope, context);
    submitPages(scope, context);
    eventPages(scope, context);
    contributorPages(scope, context);
    peoplePages(scope, context);
    machinePages(scope, context);
    calculatorPages(scope, context);
    await netPages(scope, context);
  });
};

/** The address of a static file, which changes with its content. */
export function staticUrl(name: string): string {
  const digest = createHash('sha384')
    .update(readFileSync(`${folder}${name}`))
    .digest('base64url');
  return `/static/${name}?x=${digest}`;
}
