import { type Html, html } from 'spillway-http';
import { button, card, empty } from 'spillway-http/kit';
import { operate } from '../operations/operations.ts';
import type { Pages } from './routes.ts';
import type { Visit } from './visit.ts';

/** Makes the sample runs for an approver. */
export const samplePages: Pages = {
  '/tests/seed': {
    for: 'approver',
    post: async (visit) => {
      const { figures } = visit.context;
      await figures.refresh();
      if (figures.unfinished.length + figures.finished.total > 0) {
        return visit.goTo('/tests', 'There are runs already.');
      }
      await operate(visit.context, 'seed', { username: visit.person?.username });
      return visit.goTo('/tests', 'Two sample runs wait for a worker.');
    },
  },
};

/** The home page of a server without runs. */
export function firstSteps(): Html {
  return card({
    id: 'first',
    title: 'Runs',
    body: empty({
      title: 'No runs yet',
      text: html`A run lets two versions of an engine play each other until it is clear which one is
stronger. Submit one, or let <code>npx fleet seed</code> make a user and two runs to
try a worker with. Then start a worker: the terminal of the server says how.`,
      actions: button({ label: 'New run', href: '/tests/run', look: 'main' }),
    }),
  });
}

/** The offer to an approver on a server without runs. */
export function sampleCard({ token }: Visit): Html {
  const body = html`<div class="stack"><p>Two runs of Stockfish 17 against itself, one of a fixed
number of games and a sequential test, under your name: something for a first worker.</p>
<form method="post" action="/tests/seed">${token}
${button({ label: 'Make the sample runs', look: 'main' })}</form></div>`;
  return card({ id: 'sample', title: 'Something to try', body });
}
