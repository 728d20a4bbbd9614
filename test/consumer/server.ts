import assert from 'node:assert/strict';
import { Lane } from 'spillway';
import { createServer, html, page, State } from 'spillway-http';

const lane = new Lane({ name: 'pages', limit: 10, queueMax: 10, deadlineMs: 5_000 });
const state = new State({ visits: 0 });
await using server = await createServer({ live: {} });
server.app.livePage('/', {
  states: [state],
  view: () => html`<b>${state.value.visits}</b>`,
  page: (view) => page({ title: 'Visits', body: view }),
  route: { config: { lane, domain: 'loop' } },
});
// @ts-expect-error: the types travel with the package, so a misspelled domain is found.
server.app.get('/other', { config: { domain: 'loops' } }, async () => 'other');
await server.start();
assert.match(await (await fetch(server.url)).text(), /<title>Visits</);
assert.equal((await fetch(`${server.url}/_live/live-client.js`)).status, 200);
assert.equal((await fetch(`${server.url}/-/live`)).status, 200);
assert.equal(lane.stats.started, 1);
console.log('the packed server works');
