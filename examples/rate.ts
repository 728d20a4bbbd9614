// Limits of clients: answered 429 before the request takes anything, with headers that say when.
import { createServer } from 'spillway-http';

await using server = await createServer({
  // All instances count together with `store: await openStore('redis://…')`.
  rate: { limits: [{ limit: 100, windowMs: 60_000 }] },
});
// A costly route has a rule of its own besides.
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
