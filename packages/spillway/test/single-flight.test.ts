import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Random, SingleFlight } from 'spillway';
import { explore, VirtualClock } from 'spillway/testing';
import { pause } from '../src/wait/wait-queue.ts';

describe('SingleFlight', () => {
  it('calls once for all who ask for a key meanwhile', async () => {
    const flight = new SingleFlight<number>();
    const answer = Promise.withResolvers<number>();
    let calls = 0;
    const work = () => {
      calls += 1;
      return answer.promise;
    };
    const asked = [flight.run('a', work), flight.run('a', work), flight.run('b', work)];
    await Promise.resolve();
    assert.deepEqual([calls, flight.size, flight.has('a')], [2, 2, true]);
    answer.resolve(5);
    assert.deepEqual(await Promise.all(asked), [5, 5, 5]);
    assert.deepEqual([flight.size, flight.has('a')], [0, false]);
  });

  it('calls again once the last call has ended, well or not', async () => {
    const flight = new SingleFlight<number>();
    const failing = () => Promise.reject(new Error('no'));
    await assert.rejects(flight.run('a', failing), /no/);
    assert.equal(await flight.run('a', async () => 1), 1);
    assert.equal(await flight.run('a', async () => 2), 2);
  });

  it('tells all who wait of a failure, also of one that comes at once', async () => {
    const flight = new SingleFlight<number>();
    const failing = () => {
      throw new Error('at once');
    };
    const asked = [flight.run('a', failing), flight.run('a', failing)];
    for (const one of asked) await assert.rejects(one, /at once/);
    assert.equal(flight.size, 0);
  });

  it('lets one leave alone: the call goes on for the others, and for nobody', async () => {
    const flight = new SingleFlight<number>();
    const answer = Promise.withResolvers<number>();
    const quitter = new AbortController();
    const first = flight.run('a', () => answer.promise, { signal: quitter.signal });
    const second = flight.run('a', () => answer.promise);
    quitter.abort(new Error('left'));
    await assert.rejects(first, /left/);
    answer.resolve(3);
    assert.equal(await second, 3);
    const alone = new AbortController();
    const failing = Promise.withResolvers<number>();
    const abandoned = flight.run('b', () => failing.promise, { signal: alone.signal });
    alone.abort(new Error('left'));
    await assert.rejects(abandoned, /left/);
    assert.equal(flight.size, 1);
    failing.reject(new Error('heard by nobody'));
    await new Promise(setImmediate);
    assert.equal(flight.size, 0);
  });

  it('does not call for one who has left already', async () => {
    const flight = new SingleFlight<number>();
    const signal = AbortSignal.abort(new Error('left'));
    let calls = 0;
    const work = async () => {
      calls += 1;
      return calls;
    };
    await assert.rejects(flight.run('a', work, { signal }), /left/);
    await new Promise(setImmediate);
    assert.equal(calls, 0);
  });

  it('never has two calls of a key under way, and answers everybody, on any seed', async () => {
    await explore(200, play);
  });
});

async function play(random: Random): Promise<void> {
  const clock = new VirtualClock();
  const flight = new SingleFlight<string>();
  const underWay = new Set<string>();
  const pick = (max: number) => Math.floor(random() * max);
  const ask = async (key: string): Promise<void> => {
    const quitter = new AbortController();
    if (random() < 0.3) clock.after(pick(30), () => quitter.abort(new Error('left')));
    const work = async () => {
      assert.equal(underWay.has(key), false, 'two calls of one key');
      underWay.add(key);
      await pause(clock, pick(20));
      underWay.delete(key);
      if (random() < 0.3) throw new Error('no');
      return key;
    };
    try {
      assert.equal(await flight.run(key, work, { signal: quitter.signal }), key);
    } catch (error) {
      assert.match(String(error), /left|no/);
    }
  };
  const asked: Promise<void>[] = [];
  for (let at = 0; at < 40; at += 1) {
    asked.push(ask(String(pick(4))));
    if (random() < 0.5) await clock.advance(pick(10));
  }
  await clock.advance(100);
  await Promise.all(asked);
  assert.equal(flight.size, 0);
}
