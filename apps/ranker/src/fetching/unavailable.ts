import { SpillwayError } from 'spillway';

/** Every reason why a page or a feed cannot be had. */
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

/** The server's validators for asking later if anything has changed; both as they were sent. */
export interface Validators {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
}

/** Status by reason: 4xx for the request's fault, 5xx for the site's; 502 if not listed. */
const statuses: Readonly<Partial<Record<UnavailableReason, number>>> = {
  invalid_url: 422,
  private_address: 422,
  timeout: 504,
};
const passing: readonly UnavailableReason[] = ['dns', 'server_error', 'timeout'];

/** Says why a page, a feed or a picture cannot be had; `reason` is for programs. */
export class UnavailableError extends SpillwayError {
  readonly reason: UnavailableReason;
  /** The reason in words. */
  readonly detail: string;
  /** True if another try within the same fetch makes sense. */
  readonly isWorthAnotherTry: boolean;
  /** Readers are told why their page could not be had, though the status is 502. */
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
