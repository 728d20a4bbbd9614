import type { Extraction } from './extract-page.ts';
import type { Validators } from './unavailable.ts';

/** The place of the text: in the page, in its structured data, or after its scripts had run. */
export type ArticleSource = 'static' | 'structured' | 'browser';

/** The main text of a page, and what the page says about itself. */
export interface Article
  extends Pick<Extraction, 'title' | 'text' | 'author' | 'published' | 'images'> {
  /** The same address wherever it is linked from; see `canonicalUrl`. */
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
