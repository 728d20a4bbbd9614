import { type Html, html, type LivePageOptions, type State } from 'spillway-http';
import {
  ago,
  card,
  decimal,
  duration,
  facts,
  framedPage,
  type LineChartOptions,
  lineChart,
  meter,
  notice,
  pageHead,
  type StateName,
  state,
  stats,
  table,
  tag,
} from 'spillway-http/kit';
import type { FollowerStats } from '../harvest/follower.ts';
import type { LiveStats } from '../harvest/live.ts';
import type { ProductOutcome, ProductStatus } from '../harvest/product.ts';
import type { Ingest } from '../open.ts';
import { counted } from './command-line.ts';

/** The values on a follower's page. */
export type FollowView = ReturnType<typeof viewOf>;

/** Collects the values of the page, with samples of the last quarter of an hour. */
export function viewOf(ingest: Ingest, follower: FollowerStats, history: FollowHistory) {
  const { settings, connector, bucket, breaker, pause, clock } = ingest;
  const now = clock.now();
  const { requests, trades, completeTo } = follower;
  const lagMs = completeTo === undefined ? undefined : Math.max(0, now - completeTo);
  history.add({ at: now, requests, trades, lagMs });
  const { state: breakerState, lastFailure } = breaker.stats;
  const { ratePerSecond: permitted, tokens } = bucket.stats;
  return {
    exchange: connector.name,
    noun: settings.source === undefined ? 'Trades' : 'Records',
    baseUrl: connector.baseUrl,
    follower,
    /** Requests a second. */
    permitted,
    /** Tokens in the bucket. */
    tokens,
    breaker: breakerState as string,
    /** Message of the last failure, unless the breaker is closed. */
    failure: breakerState === 'closed' ? undefined : lastFailure?.message,
    /** End of a long pause, ISO 8601; undefined for none. */
    pausedUntil: pause.until > now ? new Date(pause.until).toISOString() : undefined,
    /** UNIX time in milliseconds. */
    now,
    history: history.samples,
  };
}

/** A sample for the charts. */
export interface Sample {
  /** UNIX time in milliseconds. */
  readonly at: number;
  /** Requests and trades since the start. */
  readonly requests: number;
  readonly trades: number;
  /** Age of the last complete state in ms; undefined while it is unknown. */
  readonly lagMs: number | undefined;
}

const sampleMs = 5_000;
const samplesMax = 181;
const minuteMs = 60_000;

/** Keeps a sample every five seconds for a quarter of an hour. */
export class FollowHistory {
  samples: readonly Sample[] = [];

  add(sample: Sample): void {
    if (sample.at - (this.samples.at(-1)?.at ?? -Infinity) < sampleMs) return;
    this.samples = [...this.samples, sample].slice(-samplesMax);
  }
}

/** Computes the increase of a count per `perMs`, averaged over `overMs` before each sample. */
function increase(
  samples: readonly Sample[],
  count: (sample: Sample) => number,
  { overMs, perMs }: { readonly overMs: number; readonly perMs: number },
): readonly (readonly [number, number])[] {
  return samples.slice(1).map((sample) => {
    const before = samples.find(({ at }) => at >= sample.at - overMs) as Sample;
    const ms = Math.max(1, sample.at - before.at);
    return [sample.at, ((count(sample) - count(before)) * perMs) / ms] as const;
  });
}

const shapes: Readonly<Record<ProductStatus, StateName>> = {
  waiting: 'pending',
  running: 'running',
  done: 'done',
  failed: 'failed',
  skipped: 'paused',
  stopped: 'paused',
};

function stateOf(outcome: ProductOutcome, isHeld: boolean, isLive: boolean): Html {
  const { status, reason } = outcome;
  if (isLive) return state('active', 'live');
  // While no requests are made, nobody knows whether there are newer trades.
  const shown = status === 'done' && isHeld ? 'stopped' : status;
  const word = status === 'done' ? (isHeld ? 'not asked now' : 'up to date') : status;
  return html`${state(shapes[shown], word)}
${reason !== undefined && html`<span class="quiet small">${reason}</span>`}`;
}

/** Shows the fetched share of the history. */
function progressOf({ product, nextId, toId }: ProductOutcome): Html {
  const share = toId > 0 ? nextId / toId : 0;
  return meter({ share, label: `${product}: ${decimal(share * 100)} % is fetched` });
}

function productTable({ follower, noun, ...view }: FollowView): Html {
  const { products, feed } = follower;
  const isHeld = isHeldIn(view);
  return table({
    label: 'Products',
    rows: products,
    key: ({ product }) => product,
    columns: [
      { name: 'Product', cell: ({ product }) => product },
      {
        name: 'State',
        cell: (one) => stateOf(one, isHeld, feed?.products.includes(one.product) ?? false),
        fold: 'corner',
      },
      { name: noun, cell: ({ tradesInAll }) => decimal(tradesInAll), numeric: true },
      { name: 'Up to id', cell: ({ nextId }) => lastId(nextId), numeric: true, fold: 'away' },
      { name: 'Newest id', cell: ({ toId }) => lastId(toId), numeric: true, fold: 'away' },
      { name: 'Gaps', cell: ({ gaps }) => decimal(gaps), numeric: true },
      { name: 'Progress', cell: progressOf, fold: 'named' },
    ],
  });
}

function isHeldIn({ breaker, pausedUntil }: Pick<FollowView, 'breaker' | 'pausedUntil'>): boolean {
  return breaker !== 'closed' || pausedUntil !== undefined;
}

function lastId(next: number): string {
  return decimal(Math.max(0, next - 1));
}

function followView(view: FollowView): Html {
  const { exchange, baseUrl, follower, noun } = view;
  const about = html`${exchange === 'simulated' && tag('simulated exchange, trades are made up')}
<span class="quiet">${baseUrl}</span>`;
  const list = card({
    id: 'products',
    title: 'Products',
    about: decimal(follower.products.length),
    body: productTable(view),
    flush: true,
  });
  return html`<div class="stack">${pageHead({ title: `Ingest: ${exchange}`, about })}
${troubles(view)}
${figures(view)}
<div class="thirds">${charts(view, noun)}</div>
${list}
${follower.feed !== undefined && feedCard(follower.feed, view.now)}</div>`;
}

/** Shows everything that keeps the trades from being complete, worst first. */
function troubles({ follower, pausedUntil, breaker, failure }: FollowView): Html {
  const { error, feed } = follower;
  const { contradicted = 0, contradiction } = feed ?? {};
  return html`${error !== undefined && trouble('The last round failed; it is tried again.', error)}
${
  pausedUntil !== undefined &&
  trouble(
    `The exchange has asked for a pause until ${pausedUntil}.`,
    'No request is made before; "ingest resume" ends it.',
  )
}
${
  breaker !== 'closed' &&
  trouble(
    `The breaker is ${breaker}: requests have failed too often.`,
    `Single requests test whether the exchange works again. ${failure ?? ''}`,
  )
}
${
  contradicted > 0 &&
  trouble(
    `The feed and REST disagree on ${counted(contradicted, 'trade')}.`,
    `${contradiction}. The product is harvested by REST; "ingest run --full-refresh" repairs it.`,
  )
}`;
}

function trouble(verdict: string, text: string): Html {
  return notice({ verdict, text, tone: 'bad' });
}

function figures(view: FollowView): Html {
  const { noun, follower, permitted, tokens, breaker, now, history } = view;
  const { trades, succeededAt, completeTo, transformed, feed } = follower;
  const used = increase(history, ({ requests }) => requests, { overMs: 10_000, perMs: 1_000 });
  const live = feed === undefined ? '' : `, ${decimal(feed.products.length)} live`;
  return stats([
    {
      name: 'Complete up to',
      value: completeTo === undefined ? '–' : ago(now - completeTo),
      note: `REST last succeeded ${succeededAt === undefined ? '–' : ago(now - succeededAt)}`,
    },
    { name: noun, value: decimal(trades), note: `since the start${live}` },
    {
      name: 'Rate used',
      value: decimal(used.at(-1)?.[1] ?? 0, 1),
      unit: `of ${decimal(permitted, permitted < 10 ? 1 : 0)} a second`,
      note: `${decimal(Math.floor(tokens))} tokens left`,
    },
    {
      name: 'Breaker',
      value: breaker,
      note: breaker === 'closed' ? 'all calls pass' : 'calls wait',
    },
    {
      name: 'Table',
      value: transformed === undefined ? '–' : `version ${decimal(transformed.version)}`,
      note: 'of the Parquet files',
    },
  ]);
}

function charts({ history, permitted, now }: FollowView, noun: string): readonly Html[] {
  const used = increase(history, ({ requests }) => requests, { overMs: 10_000, perMs: 1_000 });
  const trades = increase(history, (one) => one.trades, { overMs: minuteMs, perMs: minuteMs });
  const lags = history.map(({ at, lagMs }) => [at, lagMs] as const);
  const seconds = lags.map(([at, ms]) => [at, ms === undefined ? undefined : ms / 1000] as const);
  const since = Math.min(history[0]?.at ?? now, now - minuteMs);
  const ticks = [
    { x: since, label: ago(now - since) },
    { x: now, label: 'now' },
  ];
  const common = {
    domain: [since, now] as const,
    room: 0.2,
    formatX: (x: number) => new Date(x).toISOString().slice(11, 19),
    nameX: 'Time (UTC)',
    size: 'low' as const,
    ticks,
  };
  const chart = (id: string, title: string, about: string, options: LineChartOptions): Html =>
    card({ id, title, about, body: lineChart({ ...common, ...options }) });
  const last = (points: readonly (readonly [number, number | undefined])[]) => points.at(-1)?.[1];
  return [
    chart('rate', 'Rate used', 'requests a second', {
      label: `Requests a second: now ${decimal(last(used), 1)} of ${decimal(permitted, 1)}.`,
      lines: [{ name: 'requests', points: used, area: true }],
      bounds: [{ y: permitted, label: `${decimal(permitted, 1)} permitted`, kind: 'limit' }],
      format: (y) => decimal(y, 1),
    }),
    chart('lag', 'Behind', 'seconds', {
      label: `Time for which something may be missing: now ${duration(last(lags))}.`,
      lines: [{ name: 'behind', points: seconds, area: true }],
      format: (y) => `${decimal(y, 1)} s`,
    }),
    chart('new', `${noun} a minute`, 'committed', {
      label: `${noun} committed in the minute before: now ${decimal(last(trades))}.`,
      lines: [{ name: noun.toLowerCase(), points: trades, area: true }],
      format: (y) => decimal(y),
    }),
  ];
}

const feedShapes: Readonly<Record<LiveStats['state'], readonly [StateName, string]>> = {
  connecting: ['pending', 'connecting'],
  open: ['active', 'connected'],
  waiting: ['retry', 'will reconnect'],
  closed: ['idle', 'closed'],
};

function feedCard(feed: LiveStats, now: number): Html {
  const { state: name, error, lastMessageAt, connections, products } = feed;
  const body = facts([
    ['State', html`${state(...feedShapes[name])} <span class="quiet small">${error}</span>`],
    ['Last message', lastMessageAt === undefined ? '–' : ago(now - lastMessageAt)],
    ['Trades received', `${decimal(feed.trades)}, and ${decimal(feed.duplicates)} duplicates`],
    ['Skipped by the feed', `${decimal(feed.missed)}, fetched from REST`],
    ['Dropped, buffer full', decimal(feed.dropped)],
    ['Refused', `${decimal(feed.refused)}, of other products or in the future`],
    ['Compared with REST', `${decimal(feed.compared)} equal, ${decimal(feed.contradicted)} not`],
    ['Connection attempts', decimal(connections)],
    ['Address', feed.url],
  ]);
  const about = `${decimal(products.length)} live`;
  return card({ id: 'feed', title: 'Feed of live trades', about, body });
}

/** Makes the live page at `/`, with the progress of each product. */
export function followPage(shown: State<FollowView>): LivePageOptions {
  return {
    states: [shown],
    view: () => followView(shown.value as FollowView),
    page: (main) =>
      framedPage({
        title: 'Ingest',
        main,
        live: true,
        services: [{ name: 'Ingest', href: '/', current: true }],
        places: [
          { name: 'Products', href: '/', current: true },
          { name: 'Quality', href: '/report' },
          { name: 'Metrics', href: '/quality/metrics' },
        ],
      }),
  };
}
