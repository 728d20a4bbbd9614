// WebSockets with rooms: a client that reads too slowly delays no other client.
import { createServer, WebSocketHub } from 'spillway-http';

const hub = new WebSocketHub();
await using server = await createServer({ hub });
hub.route(server.app, '/rooms/tea', {
  open: (socket) => {
    hub.join(socket, 'tea');
  },
  message: async (_socket, message) => {
    const { sent } = await hub.broadcast('tea', `somebody said: ${message}`);
    console.log(`told ${sent} clients`);
  },
});
await server.start();

async function enter(): Promise<WebSocket> {
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/rooms/tea`);
  await new Promise((resolve) => socket.addEventListener('open', resolve));
  return socket;
}

const [ann, bob] = await Promise.all([enter(), enter()]);
const heard = new Promise((resolve) =>
  bob.addEventListener('message', ({ data }) => resolve(data)),
);
while (hub.count('tea') < 2) await new Promise((resolve) => setImmediate(resolve));
ann.send('water is hot');
console.log('bob heard:', await heard);
console.log(hub.stats.open, 'are open');
