// Parts start in order and close in reverse; SIGTERM drains, and then the process ends.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Backlog, Service } from 'spillway';

const mails = new Backlog<string>({
  queueMax: 1_000,
  consume: async (address) => console.log(`mail to ${address}`),
});

const server = createServer((request, response) => {
  response.end(mails.add(request.url ?? '/'));
});

const service: Service = new Service({
  closeMsMax: 5_000,
  parts: [
    { name: 'mails', close: (options) => mails.close(options) },
    {
      name: 'server',
      start: async () => {
        await once(server.listen(0), 'listening');
        // A server is disposable, so the service will close it.
        return server;
      },
    },
    {
      name: 'demo',
      start: () => {
        mails.add('ada@example.org');
        setImmediate(() => process.kill(process.pid, 'SIGTERM'));
      },
      close: async () => console.log('closing:', service.stats.state, service.ready),
    },
  ],
});

process.on('exit', (code) => console.log('ended with', code, mails.stats.done));
await service.run();
