/** Every reason why a page or a feed cannot be had; all but the last few may pass with time. */
export const unavailableReasons = [
  'blocked',
  'broken_feed',
  'dns',
  'invalid_url',
  'not_feed',
  'not_found',
  'not_html',
  'paywall',
  'private_address',
  'redirect_loop',
  'server_error',
  'timeout',
  'too_large',
  'too_short',
] as const;

export type UnavailableReason = (typeof unavailableReasons)[number];

/** Why there is nothing to read, for programs and in words. */
export interface Unavailable {
  readonly kind: 'unavailable';
  readonly reason: UnavailableReason;
  readonly detail: string;
}

/** What a server gave to ask later whether anything has changed; both as they were sent. */
export interface Validators {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
}
