// A page that changes in every browser that has it open. Without JavaScript it is a plain page.
import { createServer, html, keyed, page, State } from 'spillway-http';

const votes = new State([
  { name: 'tea', count: 3 },
  { name: 'coffee', count: 5 },
]);

const server = await createServer({ live: {} });
const { app } = server;
app.livePage('/', {
  states: [votes],
  view: () => html`<h1>${votes.value.reduce((sum, { count }) => sum + count, 0)} votes</h1>
    <ol>${votes.value
      .toSorted((a, b) => b.count - a.count)
      .map(({ name, count }) => {
        return keyed(
          name,
          html`<li>${name}: <meter max="10" value="${count}"></meter> ${count}</li>`,
        );
      })}</ol>`,
  page: (view) => page({ title: 'Votes', body: html`<main>${view}</main>` }),
});
await server.start();

// A browser loads the page, opens the stream of changes, and names the version that it shows.
const text = await (await fetch(server.url)).text();
const version = /data-live-version="([^"]+)"/.exec(text)?.[1] ?? '';
const changes = await fetch(`${server.url}/_live`, { headers: { 'last-event-id': version } });
votes.update((draft) => {
  for (const vote of draft) if (vote.name === 'tea') vote.count += 4;
});
await server.close();
console.log(`the page has ${text.length} characters; then came:\n${await changes.text()}`);
