import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from 'spillway/testing';
import { RecentErrors } from 'spillway-http';

const busy = { id: undefined, route: 'GET /a', code: 'LANE_FULL', status: 503, message: 'full' };
const bug = { route: 'GET /b', code: 'UNEXPECTED', status: 500, message: 'oops' };

describe('RecentErrors', () => {
  it('keeps the newest, newest first, and no more than it may', () => {
    const errors = new RecentErrors();
    for (let id = 1; id <= 203; id += 1) errors.add({ ...bug, id: String(id) });
    const ids = errors.list().map(({ id }) => id);
    assert.deepEqual([ids[0], ids[1], ids.at(-1)], ['203', '202', '4']);
    assert.deepEqual(errors.stats, { total: 203, kept: 200 });
  });

  it('counts refusals of one kind in one entry, so that they wash nothing out', async () => {
    const clock = new VirtualClock();
    const errors = new RecentErrors({ clock });
    errors.add({ ...bug, id: '1' });
    for (let i = 0; i < 1_000; i += 1) errors.add(busy);
    await clock.advance(50);
    errors.add(busy);
    const [newest, oldest] = errors.list();
    assert.deepEqual([newest?.code, newest?.count], ['LANE_FULL', 1_001]);
    assert.deepEqual([oldest?.id, oldest?.count], ['1', 1]);
    assert.equal((newest?.at ?? 0) - (oldest?.at ?? 0), 50);
  });

  it('keeps no more of a long message than tells what it is', () => {
    const errors = new RecentErrors();
    errors.add({ ...bug, id: '1', message: 'x'.repeat(1_000_000) });
    assert.equal(errors.list()[0]?.message, 'x'.repeat(1_000));
  });
});
