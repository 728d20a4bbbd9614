import type { Extraction } from './extract-page.ts';
import type { Validators } from './unavailable.ts';

/** The origin of the text: the page, its structured data, or the page after its scripts ran. */
export type ArticleSource = 'static' | 'structured' | 'browser';

/** The main text of a page, and what the page says about itself. */
export interface Article
  extends Pick<Extraction, 'title' | 'text' | 'author' | 'published' | 'images'> {
  /** The canonical address, the same for every link to it; see `canonicalUrl`. */
  readonly url: string;
  /** The host it is from, without `www.`. */
  readonly source: string;
  readonly how: ArticleSource;
  readonly validators: Validators;
}

/** The outcome of a request for an article; `unchanged` only if validators were sent. */
export type ArticleAnswer =
  | { readonly kind: 'article'; readonly article: Article }
  | { readonly kind: 'unchanged'; readonly validators: Validators };
