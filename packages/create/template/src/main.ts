import { openService } from './service.ts';

const { HOST = '127.0.0.1', PORT = '8080', UPSTREAM = 'https://example.com/' } = process.env;

const { service, listener } = await openService({
  host: HOST,
  port: Number(PORT),
  upstream: new URL(UPSTREAM),
});
// Serves until it is asked to stop (SIGTERM, Ctrl-C), then finishes the requests under way.
const served = service.run();
await service.start();
console.log(`listening at ${listener.url}`);
await served;
