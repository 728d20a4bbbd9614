import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SpillwayError, seededRandom } from 'spillway';
import { VirtualClock } from 'spillway/testing';
import type { FeedAnswer } from '../src/feeds/feed.ts';
import { UnavailableError } from '../src/fetching/unavailable.ts';
import type { FetchOptions } from '../src/fetching/web.ts';
import {
  FeedRefresh,
  feedIntervalMsMax,
  feedIntervalMsMin,
  feedTurn,
} from '../src/reader/feed-refresh.ts';
import type { DueFeed, FeedFetched } from '../src/storage/feeds.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const due = (id: string, more: Partial<DueFeed> = {}): DueFeed => {
  const none = { etag: undefined, lastModified: undefined, failures: 0, publishedAt: [] };
  const credentials = undefined;
  return { id, url: `https://${id}.org/feed`, ...none, credentials, ...more };
};

/** A refresh job on a virtual clock, with feeds that are due whenever their turn has come. */
function scene(
  answer: (url: string, options: FetchOptions) => Promise<FeedAnswer> | FeedAnswer,
  feeds: readonly DueFeed[] = [due('one')],
) {
  const clock = new VirtualClock();
  const turns = new Map(feeds.map(({ id }) => [id, 0]));
  const saved: FeedFetched[] = [];
  const failures: unknown[] = [];
  const failed = new Map<string, number>();
  const refresh = new FeedRefresh({
    clock,
    random: seededRandom(1),
    onFailure: (error) => failures.push(error),
    fetcher: { fetchFeed: async (url, options = {}) => answer(url, options) },
    feeds: {
      claim: async ({ nowMs, untilMs, limit }) => {
        const taken = feeds.filter(({ id }) => Number(turns.get(id)) <= nowMs).slice(0, limit);
        for (const { id } of taken) turns.set(id, untilMs);
        return taken.map((feed) => ({ ...feed, failures: failed.get(feed.id) ?? 0 }));
      },
    },
    reader: {
      saveFetch: async (fetched) => {
        const { feedId } = fetched;
        turns.set(feedId, fetched.nextAt);
        const count = fetched.outcome === 'failed' ? (failed.get(feedId) ?? 0) + 1 : 0;
        failed.set(feedId, count);
        saved.push(fetched);
      },
    },
  });
  return { clock, refresh, saved, failures };
}

const nothing: FeedAnswer = { kind: 'unchanged', validators: {} };

describe('the turn of a feed', () => {
  const nowMs = 1_000 * hourMs;
  const turn = (publishedAt: number[], failures = 0, random = () => 0.5) =>
    feedTurn({ nowMs, publishedAt, failures, random }) - nowMs;

  it('comes twice between two posts', () => {
    const posts = [0, 4, 8, 12, 16].map((hours) => nowMs - hours * hourMs);
    assert.equal(turn(posts), 2 * hourMs);
    assert.equal(turn(posts.toReversed()), 2 * hourMs);
  });

  it('is never sooner than a quarter of an hour nor later than half a day', () => {
    const random = seededRandom(4);
    for (let round = 0; round < 500; round += 1) {
      const count = Math.floor(random() * 20);
      const posts = Array.from({ length: count }, () => nowMs - random() ** 4 * 900 * hourMs);
      const ms = turn(posts, 0, random);
      assert.ok(ms >= 0.9 * feedIntervalMsMin && ms <= 1.1 * feedIntervalMsMax, `${ms} ms`);
    }
    assert.equal(turn([]), hourMs);
    assert.equal(turn([nowMs + hourMs]), hourMs, 'a post of the future says nothing');
  });

  it('comes later when a feed has fallen silent', () => {
    const posts = [40, 41, 42, 43].map((hours) => nowMs - hours * hourMs);
    assert.equal(turn(posts), 10 * hourMs);
  });

  it('is put off twice as long by each failure, up to a day', () => {
    const waits = [1, 2, 3, 4, 20].map((failures) => turn([nowMs], failures) / minuteMs);
    assert.deepEqual(waits, [10, 20, 40, 80, 1440]);
  });
});

describe('the refresh of feeds', () => {
  it('sends validators and keeps what can be read, newest first', async () => {
    const asked: FetchOptions[] = [];
    const item = { id: 'x', url: 'https://one.org/a', text: 'Text', author: undefined };
    const { clock, refresh, saved } = scene(
      (url, options) => {
        asked.push(options);
        const items = [
          { ...item, title: ' ', published: -5 },
          { ...item, url: 'https://one.org/b', title: 'B', published: clock.now() + hourMs },
          { ...item, url: undefined, title: 'No page', published: 1 },
        ];
        const feed = { url, title: 'One', siteUrl: undefined, items };
        return { kind: 'feed', feed, validators: { etag: '"2"' } };
      },
      [due('one', { etag: '"1"', lastModified: 'then' })],
    );
    refresh.start();
    await clock.advance(1_000);
    await refresh.close();
    assert.deepEqual(asked[0]?.validators, { etag: '"1"', lastModified: 'then' });
    const [first] = saved;
    assert.ok(first?.outcome === 'new');
    assert.deepEqual(
      first.articles.map(({ title, publishedAt }) => [title, publishedAt]),
      [
        ['B', 0],
        ['Text', -5],
      ],
    );
    assert.equal(first.etag, '"2"');
    assert.equal(first.lastModified, undefined);
  });

  it('asks again on time for a day, and less and less while a feed fails', async () => {
    let fails = true;
    const times: number[] = [];
    const { clock, refresh, saved } = scene(() => {
      times.push(clock.now());
      if (fails) throw new UnavailableError('dns', 'no such host');
      return nothing;
    });
    refresh.start();
    await clock.advance(24 * hourMs);
    const waits = times.slice(1).map((time, index) => (time - (times[index] as number)) / minuteMs);
    assert.ok(times.length >= 6 && times.length <= 8, `${times.length} fetches`);
    for (const [index, wait] of waits.entries()) {
      const wanted = 10 * 2 ** index;
      assert.ok(wait > 0.85 * wanted && wait < 1.15 * wanted + 1, `${wait} of ${wanted} min`);
    }
    assert.ok(
      saved.every((one) => one.outcome === 'failed' && one.failure === 'dns: no such host'),
    );
    fails = false;
    times.length = 0;
    await clock.advance(48 * hourMs);
    await refresh.close();
    assert.ok(times.length > 20 && times.length < 54, `${times.length} fetches`);
    assert.equal(refresh.stats.failed, 0);
  });

  it('fetches four at once and never one twice at a time', async () => {
    const running = new Set<string>();
    let most = 0;
    const feeds = Array.from({ length: 100 }, (_, index) => due(`f${index}`));
    const { clock, refresh, saved } = scene(async (url) => {
      assert.ok(!running.has(url));
      running.add(url);
      most = Math.max(most, running.size);
      await new Promise<void>((resolve) => clock.after(2_000, resolve));
      running.delete(url);
      return nothing;
    }, feeds);
    refresh.start();
    await clock.advance(30 * minuteMs);
    await refresh.close();
    assert.equal(most, 4);
    assert.equal(new Set(saved.map(({ feedId }) => feedId)).size, 100);
  });

  it('gives up a fetch after a minute and says so', async () => {
    const { clock, refresh, saved } = scene(
      (_url, { signal }) =>
        new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
        }),
    );
    refresh.start();
    await clock.advance(2 * minuteMs);
    await refresh.close();
    assert.equal(saved[0]?.outcome, 'failed');
    assert.match(JSON.stringify(saved[0]), /not done within 60000 ms/);
  });

  it('does not blame a feed while this side is busy, and comes back to it', async () => {
    let isBusy = true;
    const { clock, refresh, saved, failures } = scene(() => {
      if (isBusy) throw new SpillwayError('LANE_FULL', 'busy');
      return nothing;
    });
    refresh.start();
    await clock.advance(5 * minuteMs);
    isBusy = false;
    assert.equal(saved.length, 0);
    await clock.advance(10 * minuteMs);
    await refresh.close();
    assert.equal(saved[0]?.outcome, 'same');
    assert.deepEqual(failures, []);
  });

  it('stops in the middle of fetches without keeping anything of them', async () => {
    const { clock, refresh, saved, failures } = scene(
      (_url, { signal }) =>
        new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
        }),
    );
    refresh.start();
    await clock.advance(1_000);
    assert.equal(refresh.stats.running, 1);
    await refresh.close();
    assert.deepEqual([saved, failures], [[], []]);
    await clock.advance(hourMs);
    assert.equal(refresh.stats.added, 1);
  });
});
