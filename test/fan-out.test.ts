import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { systemClock } from 'spillway';
import { type Channel, WebSocketHub } from 'spillway-http';
import { PostgresChannel, PostgresEngine } from 'spillway-sql';

describe('a Postgres channel', () => {
  it('is one that a hub takes, and says within its deadline that no server is there', async () => {
    const url = 'postgres://nobody:nothing@127.0.0.1:1/none';
    const limits = { connectionsMax: 1, queueMax: 1, deadlineMs: 200 };
    await using engine = new PostgresEngine({ url, ...limits, clock: systemClock });
    await using postgres = new PostgresChannel(engine);
    const channel: Channel = postgres;
    await using hub = new WebSocketHub({ channel });
    const listener = { message: () => {}, lost: () => {} };
    await assert.rejects(channel.subscribe('topic', listener), { code: 'DEADLINE' });
    assert.equal((await hub.broadcast('nobody', 'x')).sent, 0);
    await assert.rejects(channel.publish('topic', Buffer.of(1)), { code: 'DATABASE_LOST' });
  });
});
