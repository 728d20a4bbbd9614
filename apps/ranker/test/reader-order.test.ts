import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { seededRandom } from 'spillway';
import type { ReaderArticle } from '../src/ranking/reader.ts';
import { duplicateMsMax, type Groups, groupDuplicates } from '../src/reader/duplicates.ts';
import { type OrderOptions, order, type Place } from '../src/reader/order.ts';
import type { Verdict } from '../src/reader/rule-set.ts';
import { inSlices, type Slices } from '../src/reader/slices.ts';
import { articleOf, dayMs, nowMs, someArticles, vectorOf } from './fixtures/articles.ts';

/** Does all of the work at once. */
function atOnce<T>(work: Slices<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** True if two articles alone are one story. */
function isDuplicate(one: ReaderArticle, other: ReaderArticle): boolean {
  return new Set(atOnce(groupDuplicates([one, other])).values()).size === 1;
}

const defaults: OrderOptions = {
  nowMs,
  listing: 'all',
  halfLifeMs: 1.5 * dayMs,
  explorationShare: 0,
};

function ordered(
  articles: readonly ReaderArticle[],
  options: Partial<OrderOptions> = {},
  verdicts: ReadonlyMap<string, Verdict> = new Map(),
  groups: Groups = new Map(),
): readonly Place[] {
  return atOnce(order(articles, groups, verdicts, { ...defaults, ...options }));
}

const idsOf = (places: readonly Place[]) => places.map(({ article }) => article.id);

/** The same articles in another order. */
function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const keys = new Map(list.map((item) => [item, random()]));
  return list.toSorted((one, other) => Number(keys.get(one)) - Number(keys.get(other)));
}

describe('the order of articles', () => {
  it('puts the higher score first, and of two alike the newer one', () => {
    const old = { publishedAt: nowMs - dayMs };
    const [a, b, c] = [
      articleOf({ id: 'a', score: 4, source: 'a.org' }),
      articleOf({ id: 'b', score: 8, source: 'b.org', ...old }),
      articleOf({ id: 'c', score: 8, source: 'c.org' }),
    ];
    assert.deepEqual(idsOf(ordered([a, b, c])), ['c', 'b', 'a']);
  });

  it('lets a day-old article count half where that is the half-life', () => {
    const fresh = articleOf({ id: 'fresh', publishedAt: nowMs, score: 4 });
    const old = articleOf({ id: 'old', publishedAt: nowMs - dayMs, score: 8 });
    const [one, other] = ordered([fresh, old], { halfLifeMs: dayMs });
    assert.equal(one?.value, 4);
    assert.equal(other?.value, 4);
    assert.equal(one?.article.id, 'fresh');
  });

  it('takes what the user gave over what was expected, and 5.5 for what nobody knows', () => {
    const rated = articleOf({ id: 'rated', score: 2, vote: 9, source: 'a.org' });
    const unknown = articleOf({ id: 'unknown', score: undefined, source: 'b.org' });
    const places = ordered([unknown, articleOf({ id: 'five', source: 'c.org' }), rated]);
    assert.deepEqual(idsOf(places), ['rated', 'unknown', 'five']);
  });

  it('shows each article that is not muted exactly once, whatever the list', () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = seededRandom(seed);
      const articles = someArticles(random, Math.floor(random() * 300));
      const groups = atOnce(groupDuplicates(articles));
      const muted = articles.filter(() => random() < 0.2).map(({ id }) => id);
      const verdicts = new Map(muted.map((id) => [id, { isMuted: true, points: 0 }]));
      const places = ordered(articles, { explorationShare: 0.1 }, verdicts, groups);
      const shown = places.flatMap(({ article, others }) => [article, ...others]);
      const wanted = articles.filter(({ id }) => !verdicts.has(id));
      assert.deepEqual(new Set(shown), new Set(wanted), `seed ${seed}`);
      assert.equal(shown.length, wanted.length, `seed ${seed}`);
      const again = ordered(
        shuffled(articles, random),
        { explorationShare: 0.1 },
        verdicts,
        groups,
      );
      assert.deepEqual(idsOf(again), idsOf(places), `seed ${seed}: depends on the list's order`);
      for (const { article, others } of places) {
        for (const other of others) assert.equal(groups.get(other.id), groups.get(article.id));
      }
    }
  });

  it('never puts an article lower because its score is higher', () => {
    for (let seed = 1; seed <= 40; seed += 1) {
      const random = seededRandom(seed);
      const articles = someArticles(random, 80).map((article) => ({ ...article, vote: undefined }));
      const chosen = articles[Math.floor(random() * articles.length)] as ReaderArticle;
      const better = { ...chosen, score: Math.min(10, (chosen.score ?? 5.5) + 3 * random()) };
      const before = idsOf(ordered(articles)).indexOf(chosen.id);
      const changed = articles.map((article) => (article === chosen ? better : article));
      const after = idsOf(ordered(changed)).indexOf(chosen.id);
      assert.ok(after <= before, `seed ${seed}: from ${before} to ${after}`);
    }
  });

  it('keeps a quiet source near the top of a flood of better-rated articles', () => {
    const random = seededRandom(7);
    const flood = Array.from({ length: 400 }, (_, index) =>
      articleOf({
        id: `f${index}`,
        source: 'loud.org',
        publishedAt: nowMs - (index / 400) * 8 * dayMs,
        score: 6 + random(),
      }),
    );
    const quiet = articleOf({ id: 'quiet', source: 'quiet.org', publishedAt: nowMs - 3 * dayMs });
    const place = idsOf(ordered([...flood, { ...quiet, score: 6 }])).indexOf('quiet');
    assert.ok(place < 10, `place ${place}`);
    const asLoud = { ...quiet, score: 6, source: 'loud.org' };
    const buried = idsOf(ordered([...flood, asLoud])).indexOf('quiet');
    assert.ok(buried > 100, `place ${buried}`);
  });

  it('keeps what a weekly source wrote on the first page of ten sources that write all day', () => {
    const loud = Array.from({ length: 700 }, (_, index) =>
      articleOf({
        id: `l${index}`,
        source: `loud${index % 10}.org`,
        publishedAt: nowMs - (index / 700) * 7 * dayMs,
        score: 6,
      }),
    );
    const weekly = articleOf({ id: 'w', source: 'weekly.org', publishedAt: nowMs - 5 * dayMs });
    const place = idsOf(ordered([...loud, { ...weekly, score: 6 }])).indexOf('w');
    assert.ok(place < 40, `place ${place}`);
  });

  it('takes all links of an aggregator for one source, whatever their hosts', () => {
    const random = seededRandom(2);
    const all = Array.from({ length: 400 }, (_, index) => {
      const isLink = index % 2 === 0;
      return articleOf({
        id: `${isLink ? 'link' : 'own'}${index}`,
        source: isLink ? `host${index}.org` : `site${index % 10}.org`,
        feedId: isLink ? 'aggregator' : `site${index % 10}`,
        publishedAt: nowMs - random() * 7 * dayMs,
        score: isLink ? 6 : 8,
      });
    });
    const first = idsOf(ordered(all)).slice(0, 40);
    const links = first.filter((id) => id.startsWith('link')).length;
    assert.ok(links < 14, `${links} of 40 are the lower ones`);
  });

  it('does not show one source or one topic ten times in a row', () => {
    const random = seededRandom(3);
    const topic = vectorOf(random);
    const alike = Array.from({ length: 20 }, (_, index) =>
      articleOf({ id: `s${index}`, source: `s${index}.org`, score: 8, vector: topic }),
    );
    const others = Array.from({ length: 20 }, (_, index) =>
      articleOf({ id: `o${index}`, source: 'other.org', score: 6, vector: vectorOf(random) }),
    );
    const first = idsOf(ordered([...alike, ...others])).slice(0, 10);
    const ofTopic = first.filter((id) => id.startsWith('s')).length;
    assert.ok(ofTopic >= 4 && ofTopic <= 8, `${ofTopic} of 10 are of one topic`);
  });

  it('gives one place in ten to an unsure article, marks it, and only it', () => {
    const random = seededRandom(5);
    const articles = someArticles(random, 150).map((article) => {
      return { ...article, vote: undefined, isRead: false };
    });
    const places = ordered(articles, { explorationShare: 0.1 });
    const marked = places.flatMap(({ isExploration }, index) => (isExploration ? index : []));
    assert.deepEqual(marked.slice(0, 5), [5, 15, 25, 35, 45]);
    const [first] = marked;
    const unsure = (place?: Place) => place?.article.uncertainty ?? 3;
    const later = places.slice(16).map(unsure);
    assert.ok(unsure(places[first ?? -1]) >= Math.max(...later));
    assert.ok(ordered(articles).every(({ isExploration }) => !isExploration));
  });

  it('explores nothing in a list that is short enough to be seen whole', () => {
    const articles = someArticles(seededRandom(5), 10);
    const places = ordered(articles, { explorationShare: 0.1 });
    assert.ok(places.every(({ isExploration }) => !isExploration));
  });

  it('adds the points of boosts, also negative ones', () => {
    const articles = ['a', 'b', 'c'].map((id) => articleOf({ id, source: `${id}.org` }));
    const verdicts = new Map([
      ['a', { isMuted: false, points: -4 }],
      ['c', { isMuted: false, points: 2 }],
    ]);
    const places = ordered(articles, {}, verdicts);
    assert.deepEqual(idsOf(places), ['c', 'b', 'a']);
    assert.deepEqual(
      places.map(({ boost }) => boost),
      [2, 0, -4],
    );
  });

  it('lists a story as new until one of its articles is rated or read', () => {
    const articles = [
      articleOf({ id: 'rated', vote: 3 }),
      articleOf({ id: 'twin', score: 9 }),
      articleOf({ id: 'read', isRead: true }),
      articleOf({ id: 'new' }),
    ];
    const groups = new Map(Object.entries({ rated: 'rated', twin: 'rated' }));
    const listed = (listing: OrderOptions['listing']) =>
      ordered(articles, { listing }, new Map(), groups).map(({ article, others }) =>
        [article.id, ...others.map(({ id }) => id)].join('+'),
      );
    assert.deepEqual(listed('new'), ['new']);
    assert.deepEqual(listed('rated'), ['rated+twin']);
    assert.deepEqual(new Set(listed('all')), new Set(['rated+twin', 'read', 'new']));
  });

  it('refuses options out of range by name', () => {
    const message = /^halfLifeMs: must be a number from 3600000, got 5$/;
    assert.throws(() => ordered([], { halfLifeMs: 5 }), { message });
    assert.throws(() => ordered([], { explorationShare: 0.9 }), { message: /^explorationShare/ });
  });

  it('takes its time in slices, and stops when it is not wanted any more', async () => {
    const articles = someArticles(seededRandom(11), 1_000);
    const quitter = new AbortController();
    const gone = inSlices(groupDuplicates(articles), quitter.signal);
    quitter.abort(new Error('enough'));
    await assert.rejects(gone, { message: 'enough' });
    assert.deepEqual(await inSlices(groupDuplicates(articles)), atOnce(groupDuplicates(articles)));
  });
});

describe('near-duplicates', () => {
  const random = seededRandom(1);
  const story = vectorOf(random);
  const near = vectorOf(random, story, 0.05);
  const far = vectorOf(random);
  const first = articleOf({ id: 'a', title: 'City council votes to close the old bridge' });

  const cases = [
    { other: { title: 'The city council votes to close old bridge' }, is: true },
    { other: { title: 'Council closes bridge in the city', vector: near }, is: true },
    { other: { title: 'City council votes to close the old bridge', vector: far }, is: false },
    { other: { title: 'Rocket lands on the moon', vector: near }, is: false },
    { other: { title: 'City council votes to close the school' }, is: false },
    { other: { title: '' }, is: false },
  ] as const;
  for (const { other, is } of cases) {
    const text = 'vector' in other ? (other.vector === near ? 'alike' : 'not alike') : 'unknown';
    it(`${is ? 'finds' : 'does not find'} "${other.title}" with a text that is ${text}`, () => {
      const vector = 'vector' in other ? story : undefined;
      const second = articleOf({ id: 'b', ...other });
      assert.equal(isDuplicate({ ...first, vector }, second), is);
      assert.equal(isDuplicate(second, { ...first, vector }), is);
    });
  }

  it('groups only what is alike and at most three days apart, in any order of the list', () => {
    let grouped = 0;
    for (let seed = 1; seed <= 20; seed += 1) {
      const chance = seededRandom(seed);
      const articles = someArticles(chance, 200);
      const groups = atOnce(groupDuplicates(articles));
      const byId = new Map(articles.map((article) => [article.id, article]));
      assert.equal(groups.size, articles.length);
      for (const [id, head] of groups) {
        if (id === head) continue;
        grouped += 1;
        const [one, other] = [byId.get(id), byId.get(head)] as [ReaderArticle, ReaderArticle];
        assert.equal(groups.get(head), head);
        assert.ok(isDuplicate(one, other));
        assert.ok(one.publishedAt - other.publishedAt <= duplicateMsMax);
        assert.ok(one.publishedAt >= other.publishedAt);
      }
      assert.deepEqual(atOnce(groupDuplicates(shuffled(articles, chance))), groups);
    }
    assert.ok(grouped > 100, `${grouped} grouped`);
  });

  it('groups the same headline in a language without spaces', () => {
    const pair = ['日本銀行が金利を引き上げ', '日本銀行が金利を引き上げた'].map((title, index) =>
      articleOf({ id: `${index}`, title }),
    );
    assert.equal(atOnce(groupDuplicates(pair)).get('1'), '0');
  });

  it('is quick enough for a full list', () => {
    const articles = someArticles(seededRandom(2), 1_000);
    const begun = process.cpuUsage();
    const groups = atOnce(groupDuplicates(articles));
    atOnce(order(articles, groups, new Map(), { ...defaults, explorationShare: 0.1 }));
    const ms = process.cpuUsage(begun).user / 1_000;
    assert.ok(ms < 1_000, `${ms} ms`);
  });
});
