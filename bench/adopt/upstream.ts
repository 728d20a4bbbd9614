// The service that all apps call: it serves ten calls at once, 400 ms each, in order of arrival.
// Like a database it also serves calls whose callers have left.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Gate } from 'spillway';

const gate = new Gate({ limit: 10, queueMax: 100_000 });
const server = createServer((_req, res) => {
  const work = gate.run(() => new Promise<void>((resolve) => setTimeout(resolve, 400)));
  void work.then(() => res.end('42 euros'));
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
