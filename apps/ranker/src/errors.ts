import { SpillwayError } from 'spillway';
import { type ErrorMaker, errorMaker } from 'spillway/internal';
import type { Unavailable, UnavailableReason } from './fetching/unavailable.ts';

const faults = {
  ARTICLE_UNAVAILABLE: { status: 502, retryable: false },
  DATABASE_TAKEN: { status: 503, retryable: true },
  INPUT_INVALID: { status: 422, retryable: false },
  KEY_NEEDED: { status: 401, retryable: false },
  NAME_INVALID: { status: 422, retryable: false },
  NAME_TAKEN: { status: 409, retryable: false },
  NOTHING_RATED: { status: 409, retryable: false },
  RECORD_UNKNOWN: { status: 404, retryable: false },
  RULES_FULL: { status: 409, retryable: false },
} as const;

/** Every code that the ranker's server itself throws. */
export type RankerErrorCode = keyof typeof faults;

/** A request that is refused with a status and changes nothing. */
export const rankerError: ErrorMaker<RankerErrorCode> = errorMaker(faults);

/** Status by reason: 4xx for the request's fault, 5xx for the site's; 502 if not listed. */
const statuses: Readonly<Partial<Record<UnavailableReason, number>>> = {
  invalid_url: 422,
  private_address: 422,
  timeout: 504,
};
const passing: readonly UnavailableReason[] = ['dns', 'server_error', 'timeout'];

/** Says why a page cannot be had; `reason` is for programs. */
export class UnavailableArticleError extends SpillwayError {
  readonly reason: UnavailableReason;
  /** Readers are told why their page could not be had, though the status is 502. */
  readonly expose = true;

  constructor({ reason, detail }: Unavailable) {
    const fault = { code: 'ARTICLE_UNAVAILABLE', status: statuses[reason] ?? 502 };
    super({ ...fault, retryable: passing.includes(reason) }, `${reason}: ${detail}`);
    this.reason = reason;
  }
}
