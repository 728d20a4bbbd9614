import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Batch, Breaker, Bucket, Lane, metrics, Panel, Retry } from 'spillway';

describe('metrics', () => {
  it('writes the numbers of all parts for Prometheus, without any framework', async () => {
    const panel = new Panel();
    const lane = new Lane({ name: 'quotes', limit: 4, queueMax: 8, deadlineMs: 1_000 });
    panel.watch('quotes', lane);
    panel.watch('exchange', new Bucket({ ratePerSecond: 10, queueMax: 0 }));
    panel.watch('exchange breaker', new Breaker());
    const breaker = new Breaker();
    panel.watch('calls', breaker);
    await lane.run(async () => {});
    await breaker.run(async () => {});
    const lines = metrics(panel).split('\n');
    assert.ok(lines.includes('# TYPE spillway_lane_finished_total counter'), lines.join('\n'));
    assert.ok(lines.includes('spillway_lane_finished_total{lane="quotes"} 1'));
    assert.ok(lines.includes('# TYPE spillway_lane_outcomes_total counter'));
    assert.ok(lines.includes('spillway_lane_outcomes_total{lane="quotes",outcome="ok"} 1'));
    assert.ok(lines.includes('# TYPE spillway_breaker_calls_total counter'));
    assert.ok(lines.includes('spillway_breaker_calls_total{breaker="calls"} 1'));
    assert.ok(lines.includes('spillway_bucket_taken_total{bucket="exchange"} 0'));
    assert.ok(
      lines.includes('spillway_breaker_state{breaker="exchange breaker",state="closed"} 1'),
    );
  });

  it('says what it needs', () => {
    assert.throws(() => (metrics as () => string)(), /metrics: panel: must be a Panel, got undef/);
  });

  it('counts what only grows, and gives every part a label that Prometheus takes', async () => {
    const panel = new Panel();
    const retry = new Retry();
    panel.watch('calls', retry);
    const full = () => new Error('full');
    panel.watch('commits', new Batch({ call: async () => {}, full }));
    panel.watch('odd', { stats: { kind: '3d', size: 1 } });
    panel.watch('empty', { stats: { kind: '', size: 2 } });
    panel.watch('hub', {
      stats: { kind: 'hub', open: 3, refused: { full: 4 }, relay: { lost: 5 } },
    });
    await retry.run(async () => {});
    const lines = metrics(panel).split('\n');
    assert.ok(lines.includes('# TYPE spillway_retry_calls_total counter'), lines.join('\n'));
    assert.ok(lines.includes('spillway_retry_calls_total{retry="calls"} 1'));
    assert.ok(lines.includes('spillway_batch_groups_total{batch="commits"} 0'));
    assert.ok(lines.includes('spillway_part_size{part="odd"} 1'));
    assert.ok(lines.includes('spillway_part_size{part="empty"} 2'));
    assert.ok(lines.includes('spillway_hub_open{hub="hub"} 3'));
    assert.ok(lines.includes('spillway_hub_refused_total{hub="hub",reason="full"} 4'));
    assert.ok(lines.includes('spillway_hub_relay_total{hub="hub",event="lost"} 5'));
  });
});
