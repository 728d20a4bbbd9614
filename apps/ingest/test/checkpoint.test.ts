import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Json } from 'spillway';
import { checkpointRecord, type ProductCheckpoint, readCheckpoint } from '../src/harvest/ledger.ts';

const checkpoint: ProductCheckpoint = {
  harvest: {
    ...{ source: 'coinbase/BTC-USD/1', position: 1001, isEnd: false, commits: 3, rows: 2 },
    ...{ gaps: [{ from: 5, to: 7, reason: 'not there' }], fence: 9 },
  },
  ...{ begin: 1, trades: 998, highestId: 1000, runId: 'a', updatedAt: '2026-01-01T00:00:00.000Z' },
};

/** The record with its keys in another order, as a database may give it back. */
function turned(value: Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(turned);
  const entries = Object.entries(value).reverse();
  return Object.fromEntries(entries.map(([key, part]) => [key, turned(part as Json)]));
}

describe('a checkpoint record', () => {
  it('reads back as it was, whatever the order of its keys', () => {
    const record = checkpointRecord(checkpoint);
    assert.deepEqual(readCheckpoint('x', record), checkpoint);
    assert.deepEqual(readCheckpoint('x', turned(record)), checkpoint);
  });

  it('with anything changed is refused, and named', () => {
    const record = JSON.parse(JSON.stringify(checkpointRecord(checkpoint)));
    const changes: ((copy: typeof record) => void)[] = [
      (copy) => (copy.harvest.position = 1),
      (copy) => copy.harvest.gaps.pop(),
      (copy) => (copy.trades += 1),
      (copy) => (copy.checksum = ''),
      (copy) => delete copy.runId,
      (copy) => delete copy.schemaVersion,
    ];
    for (const change of changes) {
      const copy = structuredClone(record);
      change(copy);
      const wrong = { code: 'CHECKPOINT_UNREADABLE', message: /^checkpoint\/some: / };
      assert.throws(() => readCheckpoint('checkpoint/some', copy), wrong, change.toString());
    }
    for (const rubbish of [null, [], 'x', 7, {}]) {
      assert.throws(() => readCheckpoint('x', rubbish), { code: 'CHECKPOINT_UNREADABLE' });
    }
  });

  it('of a newer program is refused as such', () => {
    const record = { ...(checkpointRecord(checkpoint) as object), schemaVersion: 2 };
    assert.throws(() => readCheckpoint('x', record as Json), { code: 'CHECKPOINT_FUTURE' });
  });
});
