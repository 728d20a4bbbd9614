// The client of the http bench: keeps every connection busy with one request at a time, and counts
// answers. It knows only as much of HTTP as it needs, so that the server is what is measured.
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Load } from '../http.ts';

const body = JSON.stringify({ a: 2, b: 3 });
const request = Buffer.from(
  'POST /sum HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n' +
    `content-length: ${body.length}\r\n\r\n${body}`,
);
const answer = Buffer.from('{"sum":5}');

async function run({ port, connections, ms }: Load): Promise<number> {
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
