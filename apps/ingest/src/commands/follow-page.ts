import { type Html, html, type LivePageOptions, type State } from 'spillway-http';
import {
  card,
  decimal,
  framedPage,
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
import type { ProductOutcome, ProductStatus } from '../harvest/product.ts';

/** Values that the page of a follower shows. */
export interface FollowView {
  readonly exchange: string;
  readonly noun: 'Trades' | 'Records';
  readonly isSimulated: boolean;
  readonly baseUrl: string;
  readonly follower: FollowerStats;
  /** Requests a second. */
  readonly permitted: number;
  /** Tokens in the bucket. */
  readonly tokens: number;
  readonly breaker: string;
  /** End of a pause that the exchange has asked for, ISO 8601; undefined for none. */
  readonly pausedUntil: string | undefined;
}

const shapes: Readonly<Record<ProductStatus, StateName>> = {
  waiting: 'pending',
  running: 'running',
  done: 'done',
  failed: 'failed',
  skipped: 'paused',
  stopped: 'paused',
};

function stateOf({ status, reason }: ProductOutcome, isHeld: boolean): Html {
  // As long as the exchange is not asked, nobody knows whether there are newer trades.
  const shown = status === 'done' && isHeld ? 'stopped' : status;
  const word = status === 'done' ? (isHeld ? 'not asked now' : 'up to date') : status;
  return html`${state(shapes[shown], word)}
${reason !== undefined && html`<span class="quiet small">${reason}</span>`}`;
}

/** Share of the history that is fetched. */
function progressOf({ product, nextId, toId }: ProductOutcome): Html {
  const share = toId > 0 ? nextId / toId : 0;
  return meter({ share, label: `${product}: ${decimal(share * 100)} % is fetched` });
}

function productTable(rows: readonly ProductOutcome[], noun: string, isHeld: boolean): Html {
  return table({
    label: 'Products',
    rows,
    key: ({ product }) => product,
    columns: [
      { name: 'Product', cell: ({ product }) => product },
      { name: 'State', cell: (one) => stateOf(one, isHeld), fold: 'corner' },
      { name: noun, cell: ({ tradesInAll }) => decimal(tradesInAll), numeric: true },
      { name: 'Up to id', cell: ({ nextId }) => lastId(nextId), numeric: true, fold: 'away' },
      { name: 'Newest id', cell: ({ toId }) => lastId(toId), numeric: true, fold: 'away' },
      { name: 'Gaps', cell: ({ gaps }) => decimal(gaps), numeric: true },
      { name: 'Progress', cell: progressOf, fold: 'named' },
    ],
  });
}

function lastId(next: number): string {
  return decimal(Math.max(0, next - 1));
}

function followView(view: FollowView): Html {
  const { exchange, noun, isSimulated, baseUrl, follower, permitted, tokens, breaker } = view;
  const { pausedUntil } = view;
  const isHeld = breaker !== 'closed' || pausedUntil !== undefined;
  const { products, trades, requests, transformed, error } = follower;
  const about = html`${isSimulated && tag('simulated exchange, trades are made up')}
<span class="quiet">${baseUrl}</span>`;
  const list = card({
    id: 'products',
    title: 'Products',
    about: decimal(products.length),
    body: productTable(products, noun, isHeld),
    flush: true,
  });
  return html`<div class="stack">${pageHead({ title: `Ingest: ${exchange}`, about })}
${error !== undefined && trouble(error)}
${pausedUntil !== undefined && paused(pausedUntil)}
${stats([
  { name: noun, value: decimal(trades), note: 'since the start' },
  { name: 'Requests', value: decimal(requests), note: 'since the start' },
  { name: 'Permitted', value: decimal(permitted), unit: 'a second', note: tokensLeft(tokens) },
  { name: 'Breaker', value: breaker, note: breaker === 'closed' ? 'all calls pass' : 'calls wait' },
  { name: 'Table', value: tableVersion(transformed), note: 'of the Parquet files' },
])}
${list}</div>`;
}

function trouble(text: string): Html {
  return notice({ verdict: 'The last round failed; it is tried again.', text, tone: 'bad' });
}

function paused(until: string): Html {
  const verdict = `The exchange has asked for a pause until ${until}.`;
  return notice({
    verdict,
    text: 'No request is made before; "ingest resume" ends it.',
    tone: 'bad',
  });
}

function tokensLeft(tokens: number): string {
  return `${decimal(Math.floor(tokens))} tokens left`;
}

function tableVersion(transformed: FollowerStats['transformed']): string {
  return transformed === undefined ? '–' : `version ${decimal(transformed.version)}`;
}

/** The page at `/`: how far each product is, as it changes. */
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
