import type { PageImage } from '../fetching/page-images.ts';
import type { Validators } from '../fetching/unavailable.ts';

/** One entry of a feed. */
export interface FeedItem {
  /** The feed's own id; the same as long as it is the same entry. */
  readonly id: string;
  /** The address, absolute, as the feed has it; undefined for an entry without a page. */
  readonly url: string | undefined;
  /** Plain text. */
  readonly title: string;
  /** Its summary or its whole text, plain; empty if the feed has neither. */
  readonly text: string;
  readonly author: string | undefined;
  /** UNIX time in milliseconds. */
  readonly published: number | undefined;
  readonly images?: readonly PageImage[] | undefined;
  /** The words by which the feed files it. */
  readonly tags?: readonly string[] | undefined;
}

/** A feed of any format. */
export interface Feed {
  /** The address after redirects, and after the page that named it if a page was asked for. */
  readonly url: string;
  readonly title: string;
  /** The page it belongs to, absolute. */
  readonly siteUrl: string | undefined;
  /** In the order of the feed; one for each page, or for each id without one. */
  readonly items: readonly FeedItem[];
}

/** The outcome of a request for a feed; `unchanged` only if validators were sent. */
export type FeedAnswer =
  | { readonly kind: 'feed'; readonly feed: Feed; readonly validators: Validators }
  | { readonly kind: 'unchanged'; readonly validators: Validators };
