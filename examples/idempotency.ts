// A payment that is sent three times is made once: the client sends a key with it, and the server
// repeats the answer that it kept for that key.
import { createServer } from 'spillway-http';

// Several instances share `store: await openStore('postgres://…')`.
await using server = await createServer({ idempotency: {} });
let payments = 0;
server.app.post('/payments', async (request) => {
  payments += 1;
  return { payment: payments, of: request.body };
});
await server.start();

const pay = (key: string, cents: number) =>
  fetch(`${server.url}/payments`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ cents }),
  });

for (let attempt = 1; attempt <= 3; attempt += 1) {
  console.log('attempt', attempt, await (await pay('order-17', 500)).text());
}
console.log(payments, 'payment was made');
const other = await pay('order-17', 900);
console.log('another body with the same key:', other.status, Object(await other.json()).error.code);
