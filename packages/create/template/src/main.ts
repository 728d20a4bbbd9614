import { openService } from './service.ts';

const { HOST = '127.0.0.1', PORT = '8080', UPSTREAM = 'https://example.com/' } = process.env;
if (!/^\d{1,5}$/.test(PORT) || Number(PORT) > 65_535) {
  refuse(`PORT: must be a number from 0 to 65535, got '${PORT}'`);
}
if (!URL.canParse(UPSTREAM)) refuse(`UPSTREAM: must be an address, got '${UPSTREAM}'`);

const { service, listener } = await openService({
  host: HOST,
  port: Number(PORT),
  upstream: new URL(UPSTREAM),
});
service.start().then(
  () => console.log(`listening at ${listener.url}`),
  () => {}, // `run` reports the reason.
);
// Serves until it is asked to stop (SIGTERM, Ctrl-C), then finishes the requests under way.
await service.run();

function refuse(why: string): never {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}
