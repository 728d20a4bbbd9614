import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { systemClock } from 'spillway';
import { PostgresServer } from 'spillway-fixtures/postgres';
import { PostgresChannel, type PostgresChannelListener, PostgresEngine } from 'spillway-sql';

/** Hears everything, and lets a test wait for it. */
class Ear implements PostgresChannelListener {
  readonly heard: (string | number | undefined)[] = [];
  #more: PromiseWithResolvers<void> = Promise.withResolvers<void>();

  message(bytes: Uint8Array): void {
    this.#note(Buffer.from(bytes).toString());
  }

  lost(count: number | undefined): void {
    this.#note(count);
  }

  async until(count: number): Promise<void> {
    while (this.heard.length < count) await this.#more.promise;
  }

  #note(what: string | number | undefined): void {
    this.heard.push(what);
    this.#more.resolve();
    this.#more = Promise.withResolvers<void>();
  }
}

describe('PostgresChannel', { timeout: 60_000 }, () => {
  const resources = new AsyncDisposableStack();
  let server: PostgresServer;

  before(async () => {
    server = resources.use(await PostgresServer.start());
  });

  after(() => resources.disposeAsync());

  function engine(): PostgresEngine {
    const limits = { connectionsMax: 4, queueMax: 1_000, deadlineMs: 10_000 };
    return new PostgresEngine({ url: server.url, ...limits, clock: systemClock });
  }

  it('carries messages of any length to all subscribers in one order', async () => {
    await using engineA = engine();
    await using engineB = engine();
    await using a = await PostgresChannel.open(engineA);
    await using b = await PostgresChannel.open(engineB);
    const [one, two, other] = [new Ear(), new Ear(), new Ear()];
    await a.subscribe('news', one);
    await b.subscribe('news', two);
    await b.subscribe('weather', other);
    const lengths = [0, 1, 5_000, 5_600, 5_700, 8_000, 100_000, 2_000_000];
    const texts = lengths.flatMap((length, at) => [`${at}${'x'.repeat(length)}`, `${at}`]);
    for (const [at, text] of texts.entries()) {
      await (at % 2 === 0 ? a : b).publish('news', Buffer.from(text));
    }
    await a.publish('weather', Buffer.from('rain'));
    await Promise.all([one.until(texts.length), two.until(texts.length), other.until(1)]);
    assert.deepEqual(one.heard, texts);
    assert.deepEqual(two.heard, texts);
    assert.deepEqual(other.heard, ['rain']);
    assert.equal(b.stats.received, texts.length + 1);
    assert.ok(Number((await server.ask('select count(*) from spillway_channel'))[0]?.count) > 2);
    await server.ask("update spillway_channel set parked_at = now() - interval '2 minutes'");
    await a.publish('news', Buffer.alloc(10_000));
    const [row] = await server.ask('select count(*) from spillway_channel');
    assert.equal(Number(row?.count), 1, 'old ones are removed');
  });

  it('listens again after the connection broke, and says that messages may be lost', async () => {
    await using engineA = engine();
    await using channel = await PostgresChannel.open(engineA);
    const ear = new Ear();
    await channel.subscribe('t', ear);
    await channel.publish('t', Buffer.from('before'));
    await ear.until(1);
    await server.stop();
    await server.start();
    await ear.until(2);
    await channel.publish('t', Buffer.from('after'));
    await ear.until(3);
    assert.deepEqual(ear.heard, ['before', undefined, 'after']);
    assert.ok(channel.stats.reconnects >= 1);
    assert.equal(channel.stats.listening, true);
  });

  it('says which message is lost when its parked content is gone', async () => {
    await using engineA = engine();
    await using channel = await PostgresChannel.open(engineA);
    const ear = new Ear();
    await channel.subscribe('t', ear);
    await server.ask("select pg_notify('spillway_channel', E't\\n#999999999')");
    await channel.publish('t', Buffer.from('next'));
    await ear.until(2);
    assert.deepEqual(ear.heard, [1, 'next']);
    assert.equal(channel.stats.lost, 1);
  });

  it('hears no more once disposed, and leaves no connection behind', async () => {
    await using engineA = engine();
    const channel = await PostgresChannel.open(engineA);
    const [left, stays] = [new Ear(), new Ear()];
    const subscription = await channel.subscribe('t', left);
    await channel.subscribe('t', stays);
    subscription[Symbol.dispose]();
    await channel.publish('t', Buffer.from('x'));
    await stays.until(1);
    assert.deepEqual(left.heard, []);
    await channel[Symbol.asyncDispose]();
    await assert.rejects(channel.publish('t', Buffer.from('x')), /the channel is closed/);
    const listening = "select 1 from pg_stat_activity where query like 'listen%'";
    while ((await server.ask(listening)).length > 0);
  });

  it('refuses a topic or a message that it cannot carry', async () => {
    await using engineA = engine();
    await using channel = await PostgresChannel.open(engineA);
    await assert.rejects(channel.publish('a\nb', Buffer.of(1)), /topic: must be 1 to 200/);
    const large = new Uint8Array(16 * 2 ** 20 + 1);
    await assert.rejects(channel.publish('t', large), /bytes: must be at most 16777216/);
  });
});
