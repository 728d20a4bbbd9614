// A service that computes on threads, refuses at once what it cannot do, and shows its numbers.
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { Lane, Panel, Pool } from 'spillway';
import { askOperator, createServer, operatorSocket } from 'spillway-http';

await using pool = await Pool.open<typeof import('./workers/scorer.ts')>({
  module: new URL('./workers/scorer.ts', import.meta.url),
  workers: 1,
  queueMax: 100,
  deadlineMs: 5_000,
});
pool.publish({ name: 'the model', weight: 1 });
const lane = new Lane({ name: 'scores', limit: 1, queueMax: 0, deadlineMs: 2_000 });
const panel = new Panel();
panel.watch('scores', lane);
panel.watch('pool', pool);

const folder = await mkdtemp(`${tmpdir()}/example-`);
const operator = { panel, socket: operatorSocket(folder) };
await using server = await createServer({ operator });
const config = { lane, domain: 'thread' } as const;
server.app.get<{ Params: { text: string } }>('/score/:text', { config }, (request) =>
  pool.run('score', request.params.text, { signal: request.permit.signal }),
);
await server.start();

console.log(await (await fetch(`${server.url}/score/rain`)).text());

// The one permit is taken: further requests get 503 with Retry-After within milliseconds.
const busy = await lane.enter();
const { status, headers } = await fetch(`${server.url}/score/more-rain`);
console.log(status, 'retry after', headers.get('retry-after'), 's');
busy[Symbol.dispose]();

// For operators, on a socket of their own: also live, ready, metrics, errors, routes and config.
const { text } = await askOperator({ socket: operatorSocket(folder), path: '/-/stats' });
const { started, refused } = JSON.parse(text).parts.scores.stats as typeof lane.stats;
console.log({ started, refused: refused.full });
