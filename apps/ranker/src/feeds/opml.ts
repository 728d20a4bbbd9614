/** One feed of a subscription list. */
export interface OpmlFeed {
  /** Absolute, http or https. */
  readonly url: string;
  readonly title: string;
  readonly siteUrl: string | undefined;
  /** The folders it is in, outermost first. */
  readonly folders: readonly string[];
}
