// The client of the http bench: keeps every connection busy with one request at a time, and counts
// answers. It knows only as much of HTTP as it needs, so that the server is what is measured.
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Load } from '../http.ts';

const body = JSON.stringify({ a: 2, b: 3 });
const head = 'HTTP/1.1\r\nhost: localhost\r\n';
const requests: Readonly<Record<Load['kind'], Buffer>> = {
  GET: Buffer.from(`GET /sum ${head}\r\n`),
  POST: Buffer.from(
    `POST /sum ${head}content-type: application/json\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`,
  ),
  refusal: Buffer.from(`GET /full ${head}\r\n`),
};
const sum = Buffer.from('{"sum":5}');
const end = Buffer.from('}');

async function run({ port, connections, ms, kind }: Load): Promise<number> {
  const request = requests[kind];
  const answer = kind === 'refusal' ? end : sum;
  let count = 0;
  let over = false;
  const sockets = Array.from({ length: connections }, () => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('connect', () => socket.write(request));
    socket.on('data', (data) => {
      if (data.subarray(data.length - answer.length).compare(answer) !== 0) {
        throw new Error(`not the answer: ${data}`);
      }
      count += 1;
      if (over) socket.destroy();
      else socket.write(request);
    });
    return socket;
  });
  await new Promise((resolve) => setTimeout(resolve, ms));
  over = true;
  const counted = count;
  await Promise.all(sockets.map((socket) => once(socket, 'close')));
  return counted;
}

process.on('message', (load: Load) => {
  void run(load).then((count) => process.send?.(count));
});
process.once('disconnect', () => process.exit());
