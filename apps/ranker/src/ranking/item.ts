import { createHash } from 'node:crypto';
import { articleId, type StoredArticle } from '../storage/articles.ts';

/** What is to be scored: an address, or a text that somebody has already. */
export type Item = { readonly url: string } | BareText;

export interface BareText {
  readonly text: string;
  readonly title?: string | undefined;
}

/** A text as an article of its own, known by what it says. */
export function articleOfText({ text, title = '' }: BareText, now: number): StoredArticle {
  const hash = createHash('sha256').update(`${title}\0${text}`).digest('base64url');
  const url = `text:${hash}`;
  return {
    ...{ id: articleId(url), url, givenUrl: url, title, text, source: '' },
    ...{ publishedAt: undefined, fetchedAt: now, etag: undefined, lastModified: undefined },
    ...{ unavailable: undefined, addedAt: now },
  };
}
