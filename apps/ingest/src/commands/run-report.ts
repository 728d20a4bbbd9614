import type { ProductOutcome } from '../harvesting/product-outcome.ts';
import { table } from './command-line.ts';
import { exitCodes } from './exit-codes.ts';

export type RunStatus = 'ok' | 'partial_failure' | 'failed' | 'locked' | 'interrupted';

/** How a run ended, all products together. */
export function runStatus(outcomes: readonly ProductOutcome[]): RunStatus {
  const has = (...statuses: readonly string[]) =>
    outcomes.some(({ status }) => statuses.includes(status));
  if (has('failed')) return has('done', 'stopped') ? 'partial_failure' : 'failed';
  if (outcomes.some(({ reason }) => reason === 'interrupted')) return 'interrupted';
  return has('done', 'stopped') || !has('skipped') ? 'ok' : 'locked';
}

export function exitCodeOf(outcomes: readonly ProductOutcome[]): number {
  const codes = {
    ok: exitCodes.ok,
    partial_failure: exitCodes.failed,
    failed: exitCodes.failed,
    locked: exitCodes.locked,
    interrupted: exitCodes.interrupted,
  };
  return codes[runStatus(outcomes)];
}

/** One line for each product. */
export function outcomesText(outcomes: readonly ProductOutcome[]): string {
  const rows = outcomes.map(({ product, status, trades, nextId, gaps, reason }) => {
    return { product, status, trades, upTo: Math.max(0, nextId - 1), gaps, reason };
  });
  return table(rows, 'No products.');
}
