import type { HarvestSource } from 'spillway';
import { type Connector, idOf, type TradePosition } from '../connectors/connector.ts';
import type { TradePage } from '../connectors/page.ts';
import { ingestError } from '../errors.ts';
import {
  type ProductCheckpoint,
  type ProductGeneration,
  type ProductLedger,
  sourceName,
} from './ledger.ts';

/** Part of every product that is wanted. */
export interface Wish {
  /** Makes each product anew, beside what is there; the swap comes at the end. @default false */
  readonly fullRefresh?: boolean | undefined;
  /** The address is another one than before, and the API there is the same. @default false */
  readonly isMoved?: boolean | undefined;
  /** UNIX time in microseconds: where a product begins that has nothing yet. */
  readonly sinceUs?: bigint | undefined;
  /** UNIX time in microseconds: trades from then on are left. */
  readonly untilUs?: bigint | undefined;
  /** Pages of a product after which the others come again. @default all of them */
  readonly pagesMax?: number | undefined;
}

/** Work to be done for one product now. */
export interface ProductPlan extends ProductGeneration {
  readonly name: string;
  readonly begin: TradePosition;
  /** The first id to fetch, and one above the last; they are the same when there is nothing. */
  readonly from: number;
  readonly to: number;
  /** Only the answers tell where it ends. */
  readonly isOpen: boolean;
  /** Requests that this takes, if all go well. */
  readonly pages: number;
  /** Parts noted as missing. */
  readonly gaps: number;
  /** Trades committed so far. */
  readonly trades: number;
  /** Undefined when there is nothing to fetch. */
  readonly source: HarvestSource<TradePage, TradePosition> | undefined;
}

/** Finds where the product stands and what it lacks; a dry plan takes nothing down in the store. */
export async function planProduct(
  product: string,
  { connector, ledger }: { readonly connector: Connector; readonly ledger: ProductLedger },
  { isDry, ...wish }: Wish & { readonly isDry: boolean },
  signal: AbortSignal,
): Promise<ProductPlan> {
  const { name: exchange, pageSize } = connector;
  const { pagesMax = Infinity } = wish;
  // Asked first: a product that the exchange does not know leaves no trace here.
  const latest = await latestOf(product, connector, signal);
  if (latest === Infinity && wish.untilUs !== undefined) {
    const why = 'its end is known by the answers only';
    throw ingestError('SOURCE_INVALID', `${exchange}: --until: ${why}`);
  }
  const of = {
    exchange,
    product,
    generation: await generationOf(product, ledger, wish, isDry, signal),
  };
  let checkpoint = await ledger.checkpoint(of, signal);
  if (isElsewhere(checkpoint, connector)) {
    if (wish.fullRefresh) {
      // What was begun of another address is left, as any history that was replaced.
      if (isDry) of.generation += 1;
      else of.generation = await ledger.beginRefresh(product, signal, of.generation);
      checkpoint = undefined;
    } else if (!wish.isMoved) throw addressChanged(product, checkpoint, connector);
    else if (!isDry) await ledger.noteAddress(of, connector.address, signal);
  }
  if (latest === undefined && (checkpoint?.highestId ?? 0) > 0) {
    const message = `${product}: ${exchange} gave no newest trade`;
    const known = `trade ${checkpoint?.highestId} is here already`;
    throw ingestError('EXCHANGE_FAILED', `${message}, and ${known}; run it again later`);
  }
  const place = async (us: bigint | undefined) =>
    us === undefined ? undefined : connector.positionAt(product, us, signal);
  const since = await place(wish.sinceUs);
  const until = await place(wish.untilUs);
  if (checkpoint !== undefined && since !== undefined) {
    checkBegin(product, idOf(since), idOf(checkpoint.begin));
  }
  const begin = checkpoint?.begin ?? since ?? connector.start;
  const at = checkpoint?.harvest.position ?? begin;
  const from = idOf(at);
  const end = until === undefined ? Infinity : idOf(until);
  const last = Math.min((latest ?? 0) + 1, end, from + pagesMax * pageSize);
  const to = Math.max(from, last);
  const name = sourceName(of);
  const source = to > from ? connector.source(product, { from: at, to }, name) : undefined;
  const pages = Math.ceil((to - from) / pageSize);
  const gaps = checkpoint?.harvest.gaps.length ?? 0;
  const trades = checkpoint?.trades ?? 0;
  const isOpen = latest === Infinity;
  return { ...of, name, begin, from, to, isOpen, pages, gaps, trades, source };
}

function isElsewhere(checkpoint: ProductCheckpoint | undefined, { address }: Connector): boolean {
  return (checkpoint?.address ?? address) !== address;
}

/** Two sources must not become one history, and a history that moved must not begin anew. */
function addressChanged(
  product: string,
  checkpoint: ProductCheckpoint | undefined,
  { address }: Connector,
): Error {
  const what = `${product}: its history came from ${checkpoint?.address}, now ${address} is asked`;
  const moved = 'add --moved to go on if that is the same API';
  const remedy = `${moved}, or --full-refresh to make the history anew; another API needs a --data`;
  return ingestError('ADDRESS_CHANGED', `${what}; ${remedy} of its own`);
}

/** The newest id; for a name that it does not know, what to do about it. */
async function latestOf(
  product: string,
  connector: Connector,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    return await connector.latest(product, signal);
  } catch (cause) {
    if (Object(cause).code !== 'PRODUCT_UNKNOWN') throw cause;
    const message = `${product}: ${connector.name} has no such product at ${connector.baseUrl}`;
    const same = 'with the same --exchange or --source';
    const remedy = `"ingest products --dry-run", ${same}, shows those it has`;
    throw ingestError('PRODUCT_UNKNOWN', `${message}; ${remedy}`, { cause });
  }
}

async function generationOf(
  product: string,
  ledger: ProductLedger,
  { fullRefresh }: Wish,
  isDry: boolean,
  signal: AbortSignal,
): Promise<number> {
  if (!isDry && fullRefresh) return ledger.beginRefresh(product, signal);
  const { current, building } = isDry
    ? await ledger.generations(product, signal)
    : await ledger.begin(product, signal);
  return fullRefresh ? (building ?? current + 1) : current;
}

/** A history is only ever continued: what lies before its beginning takes a new one. */
function checkBegin(product: string, wanted: number, begun: number): void {
  if (wanted >= begun) return;
  const message = `${product}: begun at trade ${begun}, and --since asks for ${wanted} on`;
  throw ingestError('PRODUCT_BEGUN_LATER', `${message}; add --full-refresh to begin earlier`);
}

export type ProductStatus = 'waiting' | 'running' | 'done' | 'failed' | 'skipped' | 'stopped';

/** Progress of a product, or its end. */
export interface ProductOutcome {
  readonly product: string;
  readonly status: ProductStatus;
  /** Reason for which it failed, was stopped or was skipped. */
  readonly reason: string | undefined;
  /** Its code, for a failure that has one. */
  readonly code: string | undefined;
  /** Trades committed by this run. */
  readonly trades: number;
  /** Trades committed by all runs of this generation. */
  readonly tradesInAll: number;
  /** The first id that is not committed yet. */
  readonly nextId: number;
  /** One above the newest id that was to be fetched. */
  readonly toId: number;
  /** Parts of the history that are noted as missing. */
  readonly gaps: number;
  readonly generation: number;
}

const none = { reason: undefined, code: undefined, trades: 0, tradesInAll: 0, nextId: 0, toId: 0 };

/** A store that was away is asked again in so many rounds of a run. */
const againMax = 5;

/** Keeps the outcome of one product, over many rounds. */
export class ProductTally {
  #outcome: ProductOutcome;
  /** Trades that earlier runs had committed; undefined until that is known. */
  #before: { readonly generation: number; readonly trades: number } | undefined;

  #again = 0;

  constructor(product: string) {
    this.#outcome = { product, status: 'waiting', ...none, gaps: 0, generation: 0 };
  }

  get outcome(): ProductOutcome {
    return this.#outcome;
  }

  begin(plan: ProductPlan): void {
    const { from: nextId, gaps, generation, trades } = plan;
    const toId = plan.isOpen ? nextId : plan.to;
    if (this.#before?.generation !== generation) this.#before = { generation, trades };
    this.#set({ status: 'running', nextId, toId, gaps, generation, tradesInAll: trades });
  }

  note(checkpoint: ProductCheckpoint): void {
    const { harvest, trades } = checkpoint;
    const nextId = idOf(harvest.position);
    this.#set({
      trades: trades - (this.#before?.trades ?? 0),
      tradesInAll: trades,
      nextId,
      toId: Math.max(this.#outcome.toId, nextId),
      gaps: harvest.gaps.length,
    });
  }

  /** True if a failure that will pass by itself is worth another round. */
  tryAgain(): boolean {
    this.#again += 1;
    return this.#again <= againMax;
  }

  /** It has ended without a failure; `reason` says why it was not brought to its end. */
  end(reason?: 'interrupted' | 'max_requests' | 'locked_by_another_worker'): void {
    const isSkipped = reason === 'locked_by_another_worker';
    this.#set({ status: reason ? (isSkipped ? 'skipped' : 'stopped') : 'done', reason });
  }

  fail(error: unknown): void {
    const { message = String(error), code, retryAfterMs = 0 } = Object(error);
    const known = typeof code === 'string' ? code : undefined;
    const seconds = Math.ceil(retryAfterMs / 1000);
    // The breaker tells what it is, not what to do.
    const pause = `it has failed again and again, is asked anew in ${seconds} s: run again then`;
    const reason = code === 'BREAKER_OPEN' ? pause : message;
    this.#set({ status: 'failed', reason, code: known });
  }

  #set(change: Partial<ProductOutcome>): void {
    this.#outcome = { ...this.#outcome, ...change };
  }
}
