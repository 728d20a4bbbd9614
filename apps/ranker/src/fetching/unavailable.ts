import { SpillwayError } from 'spillway';

/** All reasons why a page or a feed is not available. */
export type UnavailableReason =
  | 'blocked'
  | 'broken_feed'
  | 'dns'
  | 'invalid_url'
  | 'not_feed'
  | 'not_found'
  | 'not_html'
  | 'not_image'
  | 'paywall'
  | 'private_address'
  | 'redirect_loop'
  | 'server_error'
  | 'timeout'
  | 'too_large'
  | 'too_short';

/** The validators of an answer, with which a later request asks whether it has changed. */
export interface Validators {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
}

/** Status by reason: 4xx for a fault of the request, 5xx for one of the site; 502 by default. */
const statuses: Readonly<Partial<Record<UnavailableReason, number>>> = {
  invalid_url: 422,
  private_address: 422,
  timeout: 504,
};
const passing: readonly UnavailableReason[] = ['dns', 'server_error', 'timeout'];

/** The error for a page, feed or picture that is not available; `reason` is for programs. */
export class UnavailableError extends SpillwayError {
  readonly reason: UnavailableReason;
  /** The reason in words. */
  readonly detail: string;
  /** True if another try within the same fetch makes sense. */
  readonly isWorthAnotherTry: boolean;
  /** True: clients see the message, though the status is 502. */
  readonly expose = true;

  constructor(reason: UnavailableReason, detail: string, isWorthAnotherTry = false) {
    const fault = { code: 'ARTICLE_UNAVAILABLE', status: 502, retryable: false };
    const { [reason]: status = fault.status } = statuses;
    super({ ...fault, status, retryable: passing.includes(reason) }, `${reason}: ${detail}`);
    this.reason = reason;
    this.detail = detail;
    this.isWorthAnotherTry = isWorthAnotherTry;
  }
}
