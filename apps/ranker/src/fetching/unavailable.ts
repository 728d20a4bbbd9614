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

/** A reason why there is nothing to read, for programs and in words. */
export interface Unavailable {
  readonly kind: 'unavailable';
  readonly reason: UnavailableReason;
  readonly detail: string;
}

/** The server's validators for asking later if anything has changed; both as they were sent. */
export interface Validators {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
}

/** Ends a fetch with a reason; whoever started the fetch turns it into its answer. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
  readonly reason: UnavailableReason;
  /** True if another try within the same fetch makes sense. */
  readonly retryable: boolean;

  constructor(reason: UnavailableReason, detail: string, retryable = false) {
    super(detail);
    this.reason = reason;
    this.retryable = retryable;
  }

  get answer(): Unavailable {
    return { kind: 'unavailable', reason: this.reason, detail: this.message };
  }
}
