import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryStore, metrics, Panel, type Store, seededRandom } from 'spillway';
import { FaultyStore, VirtualClock } from 'spillway/testing';
import { type Channel, type ChannelListener, StoreChannel } from 'spillway-http';

/** Hears everything as text, and losses as numbers. */
class Ear implements ChannelListener {
  readonly heard: (string | number | undefined)[] = [];

  message(bytes: Uint8Array): void {
    this.heard.push(Buffer.from(bytes).toString());
  }

  lost(count: number | undefined): void {
    this.heard.push(count);
  }
}

async function say(channel: Channel, topic: string, ...texts: readonly string[]): Promise<void> {
  await Promise.all(texts.map((text) => channel.publish(topic, Buffer.from(text))));
}

function withoutWatch(store: Store): Store {
  return {
    read: (...args) => store.read(...args),
    commit: (...args) => store.commit(...args),
    list: (...args) => store.list(...args),
    [Symbol.asyncDispose]: async () => {},
  };
}

function numbers(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, at) => `${from + at}`);
}

describe('StoreChannel', () => {
  it('carries messages of a topic to all subscribers, its own too, in one order', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    await using a = new StoreChannel({ store, clock });
    await using b = new StoreChannel({ store, clock });
    const [one, two, other] = [new Ear(), new Ear(), new Ear()];
    await say(a, 'news', 'before');
    await a.subscribe('news', one);
    await b.subscribe('news', two);
    await b.subscribe('weather', other);
    await clock.run(
      Promise.all([
        say(a, 'news', ...numbers(0, 200)),
        say(b, 'news', ...numbers(200, 400)),
        say(a, 'weather', 'rain'),
      ]),
    );
    await clock.advance(50);
    assert.deepEqual(one.heard, two.heard);
    assert.deepEqual(new Set(one.heard), new Set(numbers(0, 400)));
    assert.equal(one.heard.length, 400);
    const ofA = one.heard.filter((text) => Number(text) < 200);
    assert.deepEqual(ofA, numbers(0, 200));
    assert.deepEqual(other.heard, ['rain']);
    assert.deepEqual([a.stats.published, b.stats.published], [202, 200]);
    assert.deepEqual([a.stats.received, b.stats.received], [400, 401]);
  });

  it('keeps topics apart whose names begin with those of others', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    await using channel = new StoreChannel({ store, clock });
    const topics = ['room', 'room/1', 'room%2F1', 'room/1/0'];
    const ears = topics.map(() => new Ear());
    for (const [at, topic] of topics.entries()) await channel.subscribe(topic, ears[at] as Ear);
    for (const round of ['a', 'b', 'c']) {
      for (const topic of topics) await say(channel, topic, `${topic} ${round}`);
      await clock.advance(50);
    }
    const heard = topics.map((topic) => ['a', 'b', 'c'].map((round) => `${topic} ${round}`));
    assert.deepEqual(
      ears.map((ear) => ear.heard),
      heard,
    );
  });

  it('refuses a topic that no store can hold, and no other message with it', async () => {
    const clock = new VirtualClock();
    await using channel = new StoreChannel({ store: new MemoryStore({ clock }), clock });
    const bytes = Buffer.from('a');
    for (const topic of ['\ud800', '\0', 'x'.repeat(500)]) {
      const bad = assert.rejects(channel.publish(topic, bytes), { code: 'ERR_ASSERTION' });
      await Promise.all([bad, channel.publish('news', bytes), channel.publish('news', bytes)]);
      await assert.rejects(channel.subscribe(topic, new Ear()), { code: 'ERR_ASSERTION' });
    }
    assert.equal(channel.stats.published, 6);
    const panel = new Panel();
    panel.watch('news', channel);
    const lines = metrics(panel).split('\n');
    assert.ok(lines.includes('spillway_store_channel_published_total{store_channel="news"} 6'));
  });

  const tellings = [
    { what: 'tells short messages', hasNews: true, length: 5, reads: 0 },
    { what: 'tells only that there are some', hasNews: false, length: 5, reads: 5 },
    { what: 'is not told long ones', hasNews: true, length: 6_000, reads: 5 },
  ];
  for (const { what, hasNews, length, reads } of tellings) {
    it(`publishes by one call, and hears by ${reads} of 5 if the store ${what}`, async () => {
      const clock = new VirtualClock();
      const store = new MemoryStore({ clock });
      const calls = { read: 0, commit: 0 };
      const counted: Store = {
        ...withoutWatch(store),
        read(...args) {
          calls.read += 1;
          return store.read(...args);
        },
        commit(...args) {
          calls.commit += 1;
          return store.commit(...args);
        },
        watch: (names, changed) =>
          store.watch(names, (news) => (hasNews ? changed(news) : changed())),
      };
      await using near = new StoreChannel({ store: counted, clock });
      await using far = new StoreChannel({ store: counted, clock });
      const ear = new Ear();
      await far.subscribe('t', ear);
      await say(near, 't', 'first');
      await clock.advance(0);
      Object.assign(calls, { read: 0, commit: 0 });
      const texts = numbers(0, 5).map((text) => text.padEnd(length, '.'));
      for (const text of texts) {
        await say(near, 't', text);
        await clock.advance(0);
      }
      assert.deepEqual(ear.heard, ['first', ...texts]);
      assert.deepEqual(calls, { read: reads, commit: 5 });
    });
  }

  it('neither doubles nor reorders messages that come with late news and late reads', async () => {
    for (const seed of numbers(1, 21)) {
      const clock = new VirtualClock();
      const random = seededRandom(Number(seed));
      const memory = new MemoryStore({ clock });
      const slow = () => {
        const network = { clock, random, delayMsMax: 40, faultShare: Number(seed) % 2 ? 0.1 : 0 };
        return new FaultyStore(memory, network);
      };
      await using one = new StoreChannel({ store: slow(), clock, random });
      await using two = new StoreChannel({ store: slow(), clock, random });
      await using far = new StoreChannel({ store: slow(), clock, random, pollMs: 5 });
      const ear = new Ear();
      const subscribe = (): Promise<Disposable> => far.subscribe('t', ear).catch(subscribe);
      await clock.run(subscribe());
      const said: string[] = [];
      const talk = async (channel: StoreChannel, name: string) => {
        for (const text of numbers(0, 60)) {
          const isDone = await say(channel, 't', `${name}${text}`).then(
            () => true,
            () => false,
          );
          if (isDone) said.push(`${name}${text}`);
        }
      };
      await clock.run(Promise.all([talk(one, 'a'), talk(two, 'b')]));
      await clock.advance(30_000);
      const heard = ear.heard.filter((text) => typeof text === 'string');
      assert.equal(heard.length, ear.heard.length, `seed ${seed}: something was lost`);
      assert.equal(new Set(heard).size, heard.length, `seed ${seed}: something came twice`);
      const missing = said.filter((text) => !heard.includes(text));
      assert.deepEqual(missing, [], `seed ${seed}`);
      for (const name of ['a', 'b']) {
        const own = heard.filter((text) => text.startsWith(name)).map((text) => +text.slice(1));
        assert.deepEqual(
          own,
          own.toSorted((left, right) => left - right),
          `seed ${seed}`,
        );
      }
    }
  });

  it('carries any bytes, the empty message too', async () => {
    const clock = new VirtualClock();
    await using channel = new StoreChannel({ store: new MemoryStore({ clock }), clock });
    const heard: Uint8Array[] = [];
    await channel.subscribe('t', { message: (bytes) => heard.push(bytes), lost: () => {} });
    const all = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
    await channel.publish('t', all);
    await channel.publish('t', new Uint8Array());
    await clock.advance(50);
    assert.deepEqual(
      heard.map((bytes) => Buffer.from(bytes)),
      [all, Buffer.alloc(0)],
    );
  });

  it('tells a late subscriber how many messages it lost, and goes on with the rest', async () => {
    const clock = new VirtualClock();
    const memory = new MemoryStore({ clock });
    // A store without `watch`, which is looked at when all has been said.
    const store: Store = {
      read: (names, options) => memory.read(names, options),
      commit: (changes, options) => memory.commit(changes, options),
      list: (prefix, options) => memory.list(prefix, options),
      [Symbol.asyncDispose]: () => memory[Symbol.asyncDispose](),
    };
    await using channel = new StoreChannel({ store, clock, queueMax: 2_000 });
    const ear = new Ear();
    await channel.subscribe('t', ear);
    await say(channel, 't', ...numbers(0, 1_500));
    await clock.advance(50);
    assert.deepEqual(ear.heard, [476, ...numbers(476, 1_500)]);
    assert.equal(channel.stats.lost, 476);
  });

  it('reports losses to a subscriber that could not reach the store for a minute', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    let isDown = false;
    const flaky: Store = {
      read: (names, options) =>
        isDown ? Promise.reject(new Error('down')) : store.read(names, options),
      commit: (changes, options) => store.commit(changes, options),
      list: (prefix, options) => store.list(prefix, options),
      [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
    };
    await using near = new StoreChannel({ store, clock });
    await using far = new StoreChannel({ store: flaky, clock });
    const ear = new Ear();
    await far.subscribe('t', ear);
    isDown = true;
    await say(near, 't', 'a', 'b', 'c');
    await clock.advance(60_000);
    await say(near, 't', 'd');
    isDown = false;
    await clock.advance(50);
    assert.deepEqual(ear.heard, [3, 'd']);
    assert.ok(far.stats.failures > 100);
  });

  it('counts a message as lost that was overwritten while it was read', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    await using near = new StoreChannel({ store, clock, queueMax: 2_000 });
    let reads = 0;
    const slow: Store = {
      read: async (names, options) => {
        reads += 1;
        if (reads === 3) await say(near, 't', ...numbers(10, 1_034));
        return store.read(names, options);
      },
      commit: (changes, options) => store.commit(changes, options),
      list: (prefix, options) => store.list(prefix, options),
      [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
    };
    await using far = new StoreChannel({ store: slow, clock });
    const ear = new Ear();
    await far.subscribe('t', ear);
    await say(near, 't', ...numbers(0, 10));
    await clock.advance(100);
    assert.deepEqual(ear.heard, [10, ...numbers(10, 1_034)]);
  });

  it('reports an unknown number of losses when the store was emptied', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    await using channel = new StoreChannel({ store, clock });
    const ear = new Ear();
    await say(channel, 't', 'a', 'b');
    await channel.subscribe('t', ear);
    const records = await store.list('', { max: 100 });
    await store.commit(records.map(({ name }) => ({ name })));
    await clock.advance(50);
    await say(channel, 't', 'c');
    await clock.advance(50);
    assert.deepEqual(ear.heard, [undefined, 'c']);
  });

  for (const later of [0, 1, 3]) {
    it(`says so when a failover lost messages, and ${later} more came since`, async () => {
      const clock = new VirtualClock();
      const store = new MemoryStore({ clock });
      const ear = new Ear();
      await using channel = new StoreChannel({ store, clock, pollMs: 50 });
      await say(channel, 't', 'a', 'b');
      const kept = await store.list('', { max: 100 });
      // Without `watch`, as with a connection that is down: all happens between two polls.
      await using far = new StoreChannel({ store: withoutWatch(store), clock, pollMs: 50 });
      await far.subscribe('t', ear);
      await say(channel, 't', 'c', 'd');
      await clock.advance(50);
      await store.commit(kept.map(({ name, value }) => ({ name, value })));
      for (const text of numbers(0, 2 + later)) {
        await using other = new StoreChannel({ store, clock });
        await say(other, 't', text);
      }
      await clock.advance(100);
      await say(channel, 't', 'z');
      await clock.advance(100);
      const heard = numbers(2, 2 + later);
      assert.deepEqual(ear.heard, ['c', 'd', undefined, ...heard, 'z']);
    });
  }

  it('is not stopped by a listener that throws, nor by one that has left', async () => {
    const clock = new VirtualClock();
    await using channel = new StoreChannel({ store: new MemoryStore({ clock }), clock });
    const [left, stays] = [new Ear(), new Ear()];
    await channel.subscribe('t', { message: () => assert.fail('thrown'), lost: () => {} });
    const subscription = await channel.subscribe('t', left);
    await channel.subscribe('t', stays);
    subscription[Symbol.dispose]();
    await say(channel, 't', 'a');
    await clock.advance(50);
    assert.deepEqual([left.heard, stays.heard], [[], ['a']]);
    assert.equal(channel.stats.failures, 1);
  });

  it('refuses what is too long or too much, and leaves no timer behind', async () => {
    const clock = new VirtualClock();
    const store = new MemoryStore({ clock });
    const channel = new StoreChannel({ store, clock, bytesMax: 10, queueMax: 2 });
    await assert.rejects(channel.publish('t', Buffer.alloc(11)), /bytes: must be at most 10 bytes/);
    const first = [channel.publish('t', Buffer.of(1)), channel.publish('t', Buffer.of(2))];
    await assert.rejects(channel.publish('t', Buffer.of(3)), { code: 'CHANNEL_FULL' });
    await Promise.all(first);
    assert.equal(channel.stats.pending, 0);
    await channel.subscribe('t', new Ear());
    assert.equal(clock.pending, 1);
    await channel[Symbol.asyncDispose]();
    assert.equal(clock.pending, 0);
    await assert.rejects(channel.publish('t', Buffer.of(1)), /the channel is closed/);
  });
});
