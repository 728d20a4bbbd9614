// The service that all of them call: it works on ten calls at once, 400 ms each, in the order in
// which they came, also for callers that have gone meanwhile, as a database does.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Gate } from 'spillway';

const gate = new Gate({ limit: 10, queueMax: 100_000 });
const server = createServer((_req, res) => {
  const work = gate.run(() => new Promise<void>((resolve) => setTimeout(resolve, 400)));
  void work.then(() => res.end('42 euros'));
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
