import type { Random } from 'spillway';
import { check, checkInteger, checkNumber } from 'spillway/internal';

/** What goes wrong with a request, if anything does. */
export type Trouble = 'error' | 'hang' | 'reset' | 'truncated' | 'garbled';

export interface ExchangeTrouble {
  /** The share of requests answered 500, 502, 503 or 504; each share from 0 to 1. @default 0 */
  readonly error?: number | undefined;
  /** The share that is never answered. @default 0 */
  readonly hang?: number | undefined;
  /** The share whose connection is reset before the answer. @default 0 */
  readonly reset?: number | undefined;
  /** The share whose connection ends in the middle of the body. @default 0 */
  readonly truncated?: number | undefined;
  /** The share answered 200 with a page of HTML, or with half of the JSON. @default 0 */
  readonly garbled?: number | undefined;
  /** Of each `every` requests the first `length` are answered 503. @default none */
  readonly burst?: { readonly every: number; readonly length: number } | undefined;
}

export interface ExchangeLatency {
  /** Milliseconds, on average; from 0. */
  readonly meanMs: number;
  /** How long the tail is: 0 for none; with 1, one answer in 100 takes 6 means. @default 1 */
  readonly sigma?: number | undefined;
}

const kinds: readonly Trouble[] = ['error', 'hang', 'reset', 'truncated', 'garbled'];

/** The trouble with its rules kept. */
export function checkedTrouble(trouble: ExchangeTrouble): ExchangeTrouble {
  const shares = kinds.map((kind) => trouble[kind] ?? 0);
  for (const [at, share] of shares.entries()) checkNumber(kinds[at] as string, share, 0, 1);
  const sum = shares.reduce((total, share) => total + share, 0);
  check(sum <= 1, 'trouble', 'shares of 1 in all', sum);
  if (trouble.burst !== undefined) {
    checkInteger('burst.every', trouble.burst.every, 1);
    checkInteger('burst.length', trouble.burst.length, 0, trouble.burst.every);
  }
  return trouble;
}

/** What happens to the request of that number. */
export function troubleOf(
  trouble: ExchangeTrouble,
  request: number,
  random: Random,
): Trouble | undefined {
  const { every, length } = trouble.burst ?? { every: 1, length: 0 };
  if (request % every < length) return 'error';
  let left = random();
  for (const kind of kinds) {
    left -= trouble[kind] ?? 0;
    if (left < 0) return kind;
  }
  return undefined;
}

/** How long an answer takes: log-normal. */
export function latencyMs({ meanMs, sigma = 1 }: ExchangeLatency, random: Random): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return meanMs * Math.exp(sigma * normal - (sigma * sigma) / 2);
}
