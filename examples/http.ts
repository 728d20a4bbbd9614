// A service that computes on threads, says at once what it cannot do, and shows how it does.
import { Lane, Pool } from 'spillway';
import { createServer, Panel } from 'spillway-http';

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

await using server = await createServer({ operator: { panel } });
const config = { lane, domain: 'thread' } as const;
server.app.get<{ Params: { text: string } }>('/score/:text', { config }, (request) =>
  pool.run('score', request.params.text, { signal: request.permit.signal }),
);
await server.start();

console.log(await (await fetch(`${server.url}/score/rain`)).text());

// The one place is taken: who comes now hears within milliseconds when to come again.
const busy = await lane.enter();
const { status, headers } = await fetch(`${server.url}/score/more-rain`);
console.log(status, 'retry after', headers.get('retry-after'), 's');
busy[Symbol.dispose]();

// For who runs it, closed to strangers: also live, ready, metrics, errors, routes and config.
const stats = await (await fetch(`${server.url}/-/stats`)).json();
const { started, refused } = (stats as { parts: { scores: typeof lane } }).parts.scores.stats;
console.log({ started, refused: refused.full });
