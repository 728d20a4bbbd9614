import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, it } from 'node:test';
import { Batch, type BatchGroup, type BatchOptions, type Random, SpillwayError } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { pause } from '../src/wait/wait-queue.ts';

const full = (waiting: number) => new SpillwayError('DOCUMENT_FULL', `${waiting} wait`);

/** A batch whose calls take 10 ms and double each number, with the groups it has seen. */
function doubling(options: Partial<BatchOptions<number, number>> = {}) {
  const clock = new VirtualClock();
  const groups: number[][] = [];
  const call = async (group: BatchGroup<number, number>) => {
    const entries = group.take();
    groups.push(entries.map(({ item }) => item));
    await pause(clock, 10);
    for (const entry of entries) entry.grant(2 * entry.item);
  };
  return { clock, groups, batch: new Batch<number, number>({ call, full, clock, ...options }) };
}

describe('Batch', () => {
  it('makes one call at a time, and all who come meanwhile share the next', async () => {
    const { batch, clock, groups } = doubling();
    const first = [batch.add(1), batch.add(2)];
    await clock.advance(5);
    const second = [batch.add(3), batch.add(4)];
    assert.deepEqual(batch.stats, { kind: 'batch', waiting: 2, running: 2, groups: 0 });
    assert.deepEqual(await clock.run(Promise.all([...first, ...second])), [2, 4, 6, 8]);
    assert.deepEqual(groups, [
      [1, 2],
      [3, 4],
    ]);
    await batch.idle();
    assert.deepEqual(batch.stats, { kind: 'batch', waiting: 0, running: 0, groups: 2 });
    assert.equal(clock.pending, 0);
  });

  it('has a bound for a group, and one for those who wait', async () => {
    const { batch, clock, groups } = doubling({ groupMax: 2, queueMax: 3 });
    const all = [1, 2, 3].map((item) => batch.add(item));
    await assert.rejects(batch.add(4), { code: 'DOCUMENT_FULL', message: '3 wait' });
    await clock.run(Promise.all(all));
    assert.deepEqual(groups, [[1, 2], [3]]);
  });

  it('puts into a group whoever comes before the call takes it', async () => {
    const clock = new VirtualClock();
    const groups: number[] = [];
    const call = async (group: BatchGroup<number, void>) => {
      await pause(clock, 50);
      const entries = group.take();
      groups.push(entries.length);
      for (const entry of entries) entry.grant();
    };
    const batch = new Batch({ call, full, clock });
    const all = [batch.add(1)];
    await clock.advance(20);
    all.push(batch.add(2));
    await clock.run(Promise.all(all));
    assert.deepEqual(groups, [2]);
  });

  it('lets a call look at what comes next, and take one by one', async () => {
    const groups: string[] = [];
    const call = async (group: BatchGroup<string, void>) => {
      let taken = '';
      while (group.next !== undefined && (taken === '' || group.next !== '|')) {
        for (const entry of group.take(1)) {
          taken += entry.item;
          entry.grant();
        }
      }
      groups.push(taken);
    };
    const batch = new Batch({ call, full });
    await Promise.all([...'ab|cd|'].map((item) => batch.add(item)));
    assert.deepEqual(groups, ['ab', '|cd', '|']);
  });

  it('tells one who aborts at once: before the call as if it had never been', async () => {
    const { batch, clock, groups } = doubling();
    const first = batch.add(1);
    await clock.advance(1);
    const quitter = new AbortController();
    const left = batch.add(2, { signal: quitter.signal });
    quitter.abort(new SpillwayError('DEADLINE', 'left'));
    await assert.rejects(left, { code: 'DEADLINE', retryable: true, message: 'left' });
    await assert.rejects(batch.add(3, { signal: quitter.signal }), { message: 'left' });
    await clock.run(first);
    await batch.idle();
    assert.deepEqual(groups, [[1]]);
  });

  it('tells one who aborts while it is being done that it may have been done', async () => {
    const { batch, clock } = doubling();
    const quitter = new AbortController();
    const left = batch.add(1, { signal: quitter.signal });
    const other = batch.add(2);
    await clock.advance(1);
    quitter.abort(new SpillwayError('DEADLINE', 'left'));
    await assert.rejects(left, { code: 'DEADLINE', retryable: false, message: /is not known/ });
    assert.equal(await clock.run(other), 4);
  });

  it('leaves it to the call from when on something may have been done', async () => {
    const clock = new VirtualClock();
    const call = async (group: BatchGroup<number, void>) => {
      for (const entry of group.take()) {
        entry.mayBeDone = false;
        await pause(clock, 10, entry.signal).catch(() => {});
        entry.grant();
      }
    };
    const batch = new Batch({ call, full, clock, deadlineMs: 5 });
    const late = assert.rejects(batch.add(1), { code: 'DEADLINE', retryable: true });
    await clock.run(late);
    assert.equal(clock.now(), 5);
    await batch.idle();
  });

  it('has one deadline for waiting and working together', async () => {
    const { batch, clock } = doubling({ deadlineMs: 15, groupMax: 1 });
    const all = [1, 2, 3].map((item) => batch.add(item));
    const outcomes = await clock.run(Promise.allSettled(all));
    assert.equal(clock.now(), 15);
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.retryable : 'ok')),
      ['ok', false, true],
    );
    await clock.run(batch.idle());
    assert.equal(clock.pending, 0);
  });

  it('gives each its own time, counted from when it came', async () => {
    const { batch, clock } = doubling({ deadlineMs: 15, groupMax: 1 });
    const endsAt = (item: number) => batch.add(item).then(String, () => `late at ${clock.now()}`);
    const first = [endsAt(1), endsAt(2), endsAt(3)];
    await clock.advance(8);
    const all = Promise.all([...first, endsAt(4)]);
    assert.deepEqual(await clock.run(all), ['2', 'late at 15', 'late at 15', 'late at 23']);
  });

  it('tells a call that nobody waits any more, and calls anew for those who come', async () => {
    const clock = new VirtualClock();
    let calls = 0;
    const call = async (group: BatchGroup<number, number>) => {
      calls += 1;
      await pause(clock, 100, group.signal);
      for (const entry of group.take()) entry.grant(entry.item);
    };
    const batch = new Batch({ call, full, clock });
    const quitter = new AbortController();
    const left = assert.rejects(batch.add(1, { signal: quitter.signal }), /left/);
    await clock.advance(10);
    quitter.abort(new Error('left'));
    const next = batch.add(2);
    await left;
    assert.equal(await clock.run(next), 2);
    assert.equal(calls, 2);
  });

  it('refuses a group whose call fails, and all who wait if it took none', async () => {
    const clock = new VirtualClock();
    let opens = true;
    const call = async (group: BatchGroup<number, number>) => {
      if (!opens) throw new Error('no connection');
      group.take(2)[0]?.grant(1);
      throw new Error('no answer');
    };
    const batch = new Batch({ call, full, clock });
    const outcomes = (await Promise.allSettled([1, 2, 3].map((item) => batch.add(item)))).map(
      (outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.message),
    );
    assert.deepEqual(outcomes, [1, 'no answer', 1]);
    opens = false;
    const refused = [1, 2].map((item) => assert.rejects(batch.add(item), /no connection/));
    await Promise.all(refused);
    assert.equal(batch.stats.groups, 3);
  });

  it('may let nobody wait, and nobody work: both bounds begin at 0', async () => {
    const { batch, clock } = doubling({ queueMax: 0, deadlineMs: 0 });
    const first = assert.rejects(batch.add(1), { code: 'DEADLINE' });
    await assert.rejects(batch.add(2), { code: 'DOCUMENT_FULL' });
    await clock.run(first);
    await clock.run(batch.idle());
    assert.throws(() => doubling({ queueMax: -1 }), /queueMax: must be an integer from 0, got -1/);
    assert.throws(() => doubling({ deadlineMs: -1 }), /deadlineMs: must be a number from 0/);
  });

  it('finds a call that forgets an entry, or all', async () => {
    const forgets = new Batch({ call: async (group) => void group.take(), full });
    await assert.rejects(forgets.add(1), /Batch: call: must be a function that answers all/);
    const idle = new Batch({ call: async () => {}, full });
    await assert.rejects(idle.add(1), /Batch: call: must be a function that answers all/);
  });

  it('runs in no caller’s context, and lets the call enter that of each entry', async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const call = async (group: BatchGroup<number, void>) => {
      seen.push(storage.getStore());
      await Promise.resolve();
      for (const entry of group.take()) {
        entry.inContext(() => seen.push(storage.getStore()));
        entry.grant();
      }
    };
    const batch = new Batch({ call, full });
    const add = (name: string) =>
      storage.run(name, async () => {
        await batch.add(1);
        assert.equal(storage.getStore(), name);
      });
    await Promise.all([add('a'), add('b')]);
    assert.deepEqual(seen, [undefined, 'a', 'b']);
  });

  it('turns away all who wait', async () => {
    const { batch, clock } = doubling({ groupMax: 1 });
    const first = batch.add(1);
    const second = assert.rejects(batch.add(2), /closed/);
    await clock.advance(1);
    batch.refuseAll(new Error('closed'));
    await second;
    assert.equal(await clock.run(first), 2);
  });

  it('answers everybody once, in order, and never overlaps, on any seed', async () => {
    await explore(300, play);
  });
});

async function play(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const pick = (max: number) => Math.floor(random() * max);
  let underWay = 0;
  const begun: number[] = [];
  const done = new Set<number>();
  const groupMax = 1 + pick(5);
  const call = async (group: BatchGroup<number, number>) => {
    underWay += 1;
    assert.equal(underWay, 1, 'two calls at once');
    try {
      if (random() < 0.5) await pause(clock, pick(20), group.signal);
      if (random() < 0.1) throw new Error('before');
      const entries = group.take();
      assert.ok(entries.length <= groupMax, 'a group is too large');
      begun.push(...entries.map(({ item }) => item));
      if (random() < 0.8) await pause(clock, pick(20));
      if (random() < 0.1) throw new Error('after');
      for (const entry of entries) {
        done.add(entry.item);
        if (random() < 0.1) entry.refuse(new Error('refused'));
        else entry.grant(entry.item);
      }
    } finally {
      underWay -= 1;
    }
  };
  const deadlineMs = 10 + pick(60);
  const batch = new Batch({ call, full, clock, groupMax, queueMax: 1 + pick(10), deadlineMs });
  const answers: Promise<void>[] = [];
  for (let item = 0; item < 40; item += 1) {
    const quitter = new AbortController();
    const left = new SpillwayError('LANE_FULL', 'left');
    if (random() < 0.3) clock.after(pick(50), () => quitter.abort(left));
    const cameAt = clock.now();
    const answer = batch.add(item, { signal: quitter.signal }).then(
      (value) => assert.equal(value, item),
      (error: Error & { readonly code?: string; readonly retryable?: boolean }) => {
        const known = /before|after|refused|left|wait|not done within/;
        assert.match(error.message, known);
        if (/left|within/.test(error.message)) {
          assert.equal(error.retryable, !begun.includes(item), 'doubt is told wrongly');
        }
      },
    );
    answers.push(answer.then(() => assert.ok(clock.now() <= cameAt + deadlineMs + 1e-6)));
    if (random() < 0.5) await clock.advance(pick(15));
  }
  await clock.run(Promise.all(answers));
  await clock.run(batch.idle());
  assert.deepEqual(
    begun,
    begun.toSorted((a, b) => a - b),
    'out of order',
  );
  assert.deepEqual([batch.stats.waiting, batch.stats.running], [0, 0]);
}
