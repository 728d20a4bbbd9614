// Rate limits for clients: a request over its limit gets 429 before it takes a permit, with headers
// that say when to try again.
import { createServer } from 'spillway-http';

await using server = await createServer({
  // With `store: await openStore('redis://…')` all instances count together.
  rate: { limits: [{ limit: 100, windowMs: 60_000 }] },
});
// A costly route has a rule of its own in addition.
const config = { rate: { limit: 2, windowMs: 60_000 } };
server.app.get('/search', { config }, async () => 'found');
await server.start();

for (let attempt = 1; attempt <= 3; attempt += 1) {
  const { status, headers } = await fetch(`${server.url}/search`);
  const left = headers.get('ratelimit-remaining');
  console.log(
    `request ${attempt}: ${status}, ${left} left, retry after`,
    headers.get('retry-after'),
  );
}
