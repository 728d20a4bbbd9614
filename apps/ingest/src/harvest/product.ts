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

/** The part of each product's history to harvest. */
export interface Wish {
  /** Harvests each product anew and replaces the old history at the end. @default false */
  readonly fullRefresh?: boolean | undefined;
  /** Accepts another address than before, as the API there is the same. @default false */
  readonly isMoved?: boolean | undefined;
  /** UNIX time in microseconds at which a new history begins. */
  readonly sinceUs?: bigint | undefined;
  /** UNIX time in microseconds before which the harvest ends. */
  readonly untilUs?: bigint | undefined;
  /** Pages of each product in one round. @default unlimited */
  readonly pagesMax?: number | undefined;
}

/** The work of one round for one product. */
export interface ProductPlan extends ProductGeneration {
  readonly name: string;
  readonly begin: TradePosition;
  /** The first id to fetch, and one above the last; equal when there is nothing to fetch. */
  readonly from: number;
  readonly to: number;
  /** True if only the answers tell where the list ends. */
  readonly isOpen: boolean;
  /** Requests needed if none fails. */
  readonly pages: number;
  /** Number of gaps in the ledger. */
  readonly gaps: number;
  /** Trades committed so far. */
  readonly trades: number;
  /** Undefined when there is nothing to fetch. */
  readonly source: HarvestSource<TradePage, TradePosition> | undefined;
}

/** Finds what a product lacks; a dry plan writes nothing to the store. */
export async function planProduct(
  product: string,
  { connector, ledger }: { readonly connector: Connector; readonly ledger: ProductLedger },
  { isDry, ...wish }: Wish & { readonly isDry: boolean },
  signal: AbortSignal,
): Promise<ProductPlan> {
  const { name: exchange, pageSize } = connector;
  const { pagesMax = Infinity } = wish;
  // Comes first, so that a product unknown to the exchange leaves no record.
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
      // A refresh that was begun at another address is abandoned.
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

/** The error for a changed address: two APIs must not become one history. */
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

/** Asks for the newest id; adds a remedy to the error for an unknown product. */
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

/** Refuses to begin earlier than the history does: that takes a full refresh. */
function checkBegin(product: string, wanted: number, begun: number): void {
  if (wanted >= begun) return;
  const message = `${product}: begun at trade ${begun}, and --since asks for ${wanted} on`;
  throw ingestError('PRODUCT_BEGUN_LATER', `${message}; add --full-refresh to begin earlier`);
}

export type ProductStatus = 'waiting' | 'running' | 'done' | 'failed' | 'skipped' | 'stopped';

/** The progress of a product, and how it ended. */
export interface ProductOutcome {
  readonly product: string;
  readonly status: ProductStatus;
  /** Reason for which it failed, was stopped or was skipped. */
  readonly reason: string | undefined;
  /** Code of a failure; undefined if it has none. */
  readonly code: string | undefined;
  /** Trades committed by this run. */
  readonly trades: number;
  /** Trades committed by all runs of this generation. */
  readonly tradesInAll: number;
  /** One above the highest committed id. */
  readonly nextId: number;
  /** One above the newest id to fetch. */
  readonly toId: number;
  /** Number of gaps in the ledger. */
  readonly gaps: number;
  readonly generation: number;
}

const none = { reason: undefined, code: undefined, trades: 0, tradesInAll: 0, nextId: 0, toId: 0 };

/** Rounds of a run that may fail because the store was unreachable. */
const againMax = 5;

/** The outcome of one product over many rounds. */
export class ProductTally {
  #outcome: ProductOutcome;
  /** Trades committed by earlier runs; undefined before the first plan. */
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

  /** True if a temporary failure may be repeated once more. */
  tryAgain(): boolean {
    this.#again += 1;
    return this.#again <= againMax;
  }

  /** Ends the product without a failure; `reason` says why it is not complete. */
  end(reason?: 'interrupted' | 'max_requests' | 'locked_by_another_worker'): void {
    const isSkipped = reason === 'locked_by_another_worker';
    this.#set({ status: reason ? (isSkipped ? 'skipped' : 'stopped') : 'done', reason });
  }

  /** Ends the product with a failure; `told` replaces the message of the error. */
  fail(error: unknown, told?: string): void {
    const { message = String(error), code, retryAfterMs = 0 } = Object(error);
    const known = typeof code === 'string' ? code : undefined;
    const seconds = Math.ceil(retryAfterMs / 1000);
    // The message of the breaker has no advice.
    const pause = `it has failed again and again, is asked anew in ${seconds} s: run again then`;
    const reason = code === 'BREAKER_OPEN' ? pause : (told ?? message);
    this.#set({ status: 'failed', reason, code: known });
  }

  #set(change: Partial<ProductOutcome>): void {
    this.#outcome = { ...this.#outcome, ...change };
  }
}
