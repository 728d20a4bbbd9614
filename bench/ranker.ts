import { join } from 'node:path';
import { atMost, type Bench, type Contestant, type Figure, median } from './contest.ts';
import { besideReplacing, besideTraining } from './ranker/disturbed.ts';
import { type Scale, scaled } from './ranker/scale.ts';
import { Served } from './ranker/served.ts';

const here = import.meta.dirname;
const ownServer = join(here, '..', 'apps', 'ranker', 'test', 'fixtures', 'ranker-server.ts');
const peerServer = join(here, 'ranker', 'peer-server.ts');

const one = '600 words, 1 client';
const many = '600 words, 16 clients';
const calm = 'while it trains and replaces workers';
const learning = 'with 1,000 ratings';
const memory = 'memory';

/** Articles and ratings of a reader, by the name of the run. */
const scales: Readonly<Record<string, readonly [articles: number, ratings: number]>> = {
  '1,000 articles, 500 ratings': [1_000, 500],
  '10,000 articles, 1,000 ratings': [10_000, 1_000],
  '100,000 articles, 5,000 ratings': [100_000, 5_000],
};

/** Numbers of ratings, by the name of the run. */
const quality = new Map(
  [0, 3, 5, 10, 20, 50, 200, 1_000].map((size) => [`quality with ${size} ratings`, size]),
);
/** Quality of the scores that readers see and of simpler ones, on simulated readers. */
interface Quality {
  readonly errors: Readonly<Record<'served' | 'mean' | 'ridge' | 'nearest', number>>;
  readonly aucs: Readonly<Record<string, number>> & { readonly served: number };
  readonly slope: number;
  readonly slopeRange: readonly [low: number, high: number];
  readonly coverage: number;
}

const less = (name: string, unit: string, ...targets: Figure['targets']): Figure => {
  return { name, unit, better: 'less', targets };
};
/** With less than this the figure above means nothing. */
const atLeast = (name: string, least: number, unit: string): Figure => {
  const met = ({ ours }: { readonly ours: number }) => ours >= least;
  return { name, unit, better: 'more', targets: [{ text: `at least ${least} ${unit}`, met }] };
};
const moreOrder = (way: string): Figure => {
  return { name: `order, ${way}`, unit: 'AUC', better: 'more', targets: [] };
};
const stretch: readonly Figure[] = [
  less('p50', 'ms'),
  less('p95', 'ms'),
  { name: 'requests', unit: '/s', better: 'more', targets: [] },
  less('CPU per article', 'ms'),
];
const slopes: readonly Figure[] = [
  less('slope of truth on score, off 1', ''),
  // With other simulated readers it may be anything within the range.
  less('slope beyond chance outside 0.9 to 1.1', '', atMost(0, '')),
];
const trainingTimes = 'p95 while training, times idle';
const replacingTimes = 'p95 while replacing, times idle';
const trainedMeanwhile = "training's share of a core meanwhile";
const replacedMeanwhile = 'workers replaced meanwhile';
const visible = 'correction to visible effect';
const listed = '10,000 stored articles ranked again';

/**
 * Measures the cost of a new text of 600 words, from the request to the score, against the same
 * model on the event loop and in piscina, which only embed.
 */
export const ranker: Bench = {
  contenders: { ours, 'one model on the loop': () => peer('loop'), piscina: () => peer('piscina') },
  yardsticks: [],
  runs: [
    { name: one, rounds: 3, figures: stretch },
    { name: many, rounds: 3, figures: stretch },
    // Before articles are added: the case of a reader with a few ratings.
    {
      name: memory,
      rounds: 1,
      figures: ['idle', 'steady'].map((name) => less(name, 'MB', atMost(600, 'MB'))),
    },
    {
      name: calm,
      // This run alternates between the sides itself.
      rounds: 1,
      figures: [
        less(trainingTimes, 'x', atMost(1.1, 'x')),
        // Training may use 5 % of a core, and the time between requests; on a busy machine less.
        atLeast(trainedMeanwhile, 1, '%'),
        less(replacingTimes, 'x', atMost(1.1, 'x')),
        atLeast(replacedMeanwhile, 1, ''),
      ],
    },
    {
      name: learning,
      rounds: 3,
      figures: [less(visible, 'ms', atMost(100, 'ms')), less(listed, 'ms', atMost(1_000, 'ms'))],
    },
    ...Object.keys(scales).map((name) => ({
      name,
      rounds: 1,
      figures: [
        less('first list after a start', 'ms', atMost(1_000, 'ms')),
        less('vote answered, p95', 'ms', atMost(50, 'ms')),
        less('vote shown in its list, p95', 'ms', atMost(300, 'ms')),
        less('list, p95', 'ms', atMost(100, 'ms')),
        less('search, p95', 'ms', atMost(100, 'ms')),
        less('list of one feed, p95', 'ms', atMost(100, 'ms')),
        less('memory', 'MB', atMost(1_500, 'MB')),
        less('loop of one quiet user', '%', atMost(10, '%')),
      ],
    })),
    ...[...quality].map(([name, ratings]) => ({
      name,
      rounds: 1,
      figures: [
        less('error above the best simpler one', 'points', atMost(0.02, 'points')),
        less('order below the best simpler one', 'AUC', atMost(0.01, 'AUC')),
        ...['served', 'mean', 'ridge', 'nearest'].map((way) => less(`error, ${way}`, 'points')),
        ...['served', 'ridge', 'nearest', 'logistic', 'bm25'].map(moreOrder),
        // Without a rating all scores are equal, so there is no slope.
        ...(ratings === 0 ? [] : slopes),
        less('ratings within what was told, off 80 %', '%'),
      ],
    })),
  ],
};

async function peer(kind: string): Promise<Contestant> {
  const served = await Served.start(peerServer, [kind]);
  await served.rank(1, 3);
  return async (run, quick) => {
    if (run === one || run === many) return await figuresOf(served, run, quick);
    return run === memory ? { steady: (await served.usage()).rssBytes / 1e6 } : {};
  };
}

async function ours(): Promise<Contestant> {
  const served = await Served.start(ownServer, []);
  await served.rank(1, 3);
  const idleMb = (await served.usage()).rssBytes / 1e6;
  let isStocked = false;
  const stock = async (): Promise<void> => {
    if (isStocked) return;
    isStocked = true;
    await served.ask({ do: 'stock', articles: 1_000, isRated: true });
    await served.ask({ do: 'stock', articles: 10_000, isRated: false });
  };
  return async (run, quick) => {
    if (run === one || run === many) return await figuresOf(served, run, quick);
    if (run === memory) {
      await served.rank(4, quick ? 50 : 500);
      return { idle: idleMb, steady: (await served.usage()).rssBytes / 1e6 };
    }
    const scale = scales[run];
    if (scale !== undefined) return await figuresAt(...scale);
    const ratings = quality.get(run);
    if (ratings !== undefined) {
      const asked = { do: 'quality', ratings, each: quick ? 1 : 4 };
      return qualityFigures(await served.ask<Quality>(asked));
    }
    await stock();
    return run === calm ? await disturbed(served, quick) : await learned(served);
  };
}

async function figuresAt(articles: number, ratings: number): Promise<Record<string, number>> {
  const served = await Served.start(ownServer, []);
  const scale: Scale = await scaled(served, articles, ratings);
  await served.end();
  const { first, vote, shown, list, search, feed, memory, loop } = scale;
  return {
    'first list after a start': first,
    'vote answered, p95': vote,
    'vote shown in its list, p95': shown,
    'list, p95': list,
    'search, p95': search,
    'list of one feed, p95': feed,
    memory,
    'loop of one quiet user': loop,
  };
}

function qualityFigures(measured: Quality): Record<string, number> {
  const { errors, aucs, slope, slopeRange, coverage } = measured;
  const { served: error, mean, ridge, nearest } = errors;
  const { served: order, ...simpler } = aucs;
  const named = (measure: string, ways: Readonly<Record<string, number>>) =>
    Object.entries(ways).map(([way, value]) => [`${measure}, ${way}`, value] as const);
  return {
    'error above the best simpler one': error - Math.min(mean, ridge, nearest),
    'order below the best simpler one': Math.max(...Object.values(simpler)) - order,
    ...Object.fromEntries([...named('error', errors), ...named('order', aucs)]),
    'slope of truth on score, off 1': Math.abs(slope - 1),
    'slope beyond chance outside 0.9 to 1.1': Math.max(0, slopeRange[0] - 1.1, 0.9 - slopeRange[1]),
    'ratings within what was told, off 80 %': 100 * Math.abs(coverage - 0.8),
  };
}

async function figuresOf(served: Served, run: string, quick: boolean) {
  const { p50, p95, perSecond, cpuSeconds } = await served.rank(
    run === one ? 1 : 16,
    quick ? 32 : 160,
  );
  return { p50, p95, requests: perSecond, 'CPU per article': 1_000 * cpuSeconds };
}

async function disturbed(served: Served, quick: boolean): Promise<Record<string, number>> {
  const count = quick ? 15 : 40;
  const training = await besideTraining(served, count);
  const calm = await Served.start(ownServer, []);
  const restless = await Served.start(ownServer, [], { workerAgeMsMax: 2_000 });
  const replacing = await besideReplacing([calm, restless], count);
  await Promise.all([calm.end(), restless.end()]);
  return {
    [trainingTimes]: training.times,
    [trainedMeanwhile]: training.meanwhile,
    [replacingTimes]: replacing.times,
    [replacedMeanwhile]: replacing.meanwhile,
  };
}

/** Each text is embedded before it is corrected: only the effect of the vote is timed. */
async function learned(served: Served): Promise<Record<string, number>> {
  const taken: number[] = [];
  for (let at = 0; at < 10; at += 1) {
    const { articles } = (await served.call(`/articles?limit=100&search=w${7 * at}`)) as {
      articles: { id: string; vote: number | null }[];
    };
    const article = articles.find(({ vote }) => vote === null)?.id;
    const startedAt = performance.now();
    // The answer comes once all later scores include the vote.
    await served.call('/votes', { article, score: 1 + (at % 10) });
    taken.push(performance.now() - startedAt);
  }
  await served.call('/articles?limit=10000');
  const lists: number[] = [];
  for (let at = 0; at < 3; at += 1) {
    const startedAt = performance.now();
    await served.call('/articles?limit=10000');
    lists.push(performance.now() - startedAt);
  }
  return { [visible]: median(taken), [listed]: median(lists) };
}
