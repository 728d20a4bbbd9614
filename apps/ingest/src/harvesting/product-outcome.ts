import type { Connector } from '../connectors/connector.ts';
import type { ProductCheckpoint } from './checkpoint.ts';
import type { ProductPlan } from './plan-product.ts';

export type ProductStatus = 'waiting' | 'running' | 'done' | 'failed' | 'skipped' | 'stopped';

/** How a product stands, or ended. */
export interface ProductOutcome {
  readonly product: string;
  readonly status: ProductStatus;
  /** Why it failed, was stopped or was skipped. */
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
    const { from: nextId, to: toId, gaps, generation, trades } = plan;
    if (this.#before?.generation !== generation) this.#before = { generation, trades };
    this.#set({ status: 'running', nextId, toId, gaps, generation, tradesInAll: trades });
  }

  note(checkpoint: ProductCheckpoint, { idOf }: Pick<Connector, 'idOf'>): void {
    const { harvest, trades } = checkpoint;
    this.#set({
      trades: trades - (this.#before?.trades ?? 0),
      tradesInAll: trades,
      nextId: idOf(harvest.position),
      gaps: harvest.gaps.length,
    });
  }

  /** Whether a failure that will pass by itself is worth another round. */
  tryAgain(): boolean {
    this.#again += 1;
    return this.#again <= againMax;
  }

  finish(): void {
    this.#set({ status: 'done', reason: undefined });
  }

  stop(reason: 'interrupted' | 'max_requests'): void {
    this.#set({ status: 'stopped', reason });
  }

  skip(): void {
    this.#set({ status: 'skipped', reason: 'locked_by_another_worker' });
  }

  fail(error: unknown): void {
    const { message = String(error), code } = Object(error) as { message?: string; code?: unknown };
    const known = typeof code === 'string' ? code : undefined;
    this.#set({ status: 'failed', reason: message, code: known });
  }

  #set(change: Partial<ProductOutcome>): void {
    this.#outcome = { ...this.#outcome, ...change };
  }
}
