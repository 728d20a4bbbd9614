// The stats of every part in one place: as plain data, and in the format of Prometheus.
import { Bucket, Lane, metrics, Panel } from 'spillway';

const lane = new Lane({ name: 'quotes', limit: 10, queueMax: 20, deadlineMs: 1_000 });
const bucket = new Bucket({ ratePerSecond: 100, queueMax: 10 });
const panel = new Panel();
panel.watch('quotes', lane);
using _watched = panel.watch('exchange', bucket);

await lane.run(() => bucket.take());
for (const [name, { kind, stats }] of panel.read()) {
  console.log(name, kind, Object.keys(Object(stats)).length, 'numbers');
}
const lines = metrics(panel).split('\n');
console.log(lines.filter((line) => /^spillway_(lane_finished|bucket_taken)/.test(line)));
