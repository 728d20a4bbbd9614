import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Breaker, Bucket, Lane, metrics, Panel } from 'spillway';

describe('metrics', () => {
  it('writes the numbers of all parts for Prometheus, without any framework', async () => {
    const panel = new Panel();
    const lane = new Lane({ name: 'quotes', limit: 4, queueMax: 8, deadlineMs: 1_000 });
    panel.watch('quotes', lane);
    panel.watch('exchange', new Bucket({ ratePerSecond: 10, queueMax: 0 }));
    panel.watch('exchange breaker', new Breaker());
    await lane.run(async () => {});
    const lines = metrics(panel).split('\n');
    assert.ok(lines.includes('# TYPE spillway_lane_finished_total counter'), lines.join('\n'));
    assert.ok(lines.includes('spillway_lane_finished_total{lane="quotes"} 1'));
    assert.ok(lines.includes('spillway_bucket_taken_total{bucket="exchange"} 0'));
    assert.ok(
      lines.includes('spillway_breaker_state{breaker="exchange breaker",state="closed"} 1'),
    );
  });
});
