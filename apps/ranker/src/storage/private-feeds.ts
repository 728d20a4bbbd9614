import { createHash } from 'node:crypto';
import type { CompiledQuery, Kysely } from 'kysely';
import type { Credentials } from '../fetching/web.ts';
import { clean, articleId as feedId } from './articles.ts';
import type { RankerSchema } from './ranker-schema.ts';

/**
 * A feed that is opened by credentials belongs to one user: neither the feed nor its articles may
 * reach another user who knows the addresses. So their addresses have a mark of their own as the
 * fragment, which no server is ever sent, and with it ids of their own.
 */
const mark = '#private-';

/** The address of a feed as the user with the credentials has it. */
export function privateFeedUrl(url: string, userId: string): string {
  const owner = createHash('sha256').update(`feed of ${userId}`).digest('base64url');
  return `${publicUrl(url)}${mark}${owner.slice(0, 22)}`;
}

/** The address of an article that came by a feed with credentials. */
export function privateArticleUrl(url: string, feedId: string): string {
  return `${publicUrl(url)}${mark}${feedId}`;
}

/** The address that everybody knows. */
export function publicUrl(url: string): string {
  const at = url.indexOf(mark);
  return at === -1 ? url : url.slice(0, at);
}

export function isPrivateUrl(url: string): boolean {
  return url.includes(mark);
}

interface StoredFeed {
  readonly url: string;
  readonly title: string;
  readonly siteUrl?: string | undefined;
}

/** Makes a feed that nobody had, due at once. */
export function feedInsert(
  kysely: Kysely<RankerSchema>,
  { url, title, siteUrl }: StoredFeed,
  at: number,
): CompiledQuery {
  const row = { id: feedId(url), url, site_url: siteUrl ?? null, next_at: at };
  const none = { etag: null, last_modified: null, fetched_at: null, failure: null, failures: 0 };
  return kysely
    .insertInto('feeds')
    .values({ ...row, ...none, title: clean(title) })
    .onConflict((conflict) => conflict.doNothing())
    .compile();
}

/** Keeps the header that opens a feed. */
export function credentialsInsert(
  kysely: Kysely<RankerSchema>,
  id: string,
  { header, value }: Credentials,
): CompiledQuery {
  return kysely
    .insertInto('feed_credentials')
    .values({ feed_id: id, header, value })
    .onConflict((conflict) => conflict.column('feed_id').doUpdateSet({ header, value }))
    .compile();
}

export interface CredentialMove {
  readonly userId: string;
  readonly feed: StoredFeed & { readonly id: string };
  /** Undefined takes them away. */
  readonly credentials: Credentials | undefined;
  readonly at: number;
}

/** Moves a subscription, with the rules on it, to the feed that its credentials open. */
export function credentialQueries(
  kysely: Kysely<RankerSchema>,
  { userId, feed, credentials, at }: CredentialMove,
): CompiledQuery[] {
  const url = credentials ? privateFeedUrl(feed.url, userId) : publicUrl(feed.url);
  const next = feedId(url);
  const due = kysely
    .updateTable('feeds')
    .set({ next_at: at, failure: null, failures: 0, etag: null, last_modified: null })
    .where('id', '=', next)
    .compile();
  const opened = credentials === undefined ? [] : [credentialsInsert(kysely, next, credentials)];
  // What is known of a private feed does not become known to all.
  const title = credentials ? feed.title : '';
  const rest = [feedInsert(kysely, { url, title }, at), due, ...opened];
  if (feed.id === next) return rest;
  const subscriptions = kysely.updateTable('subscriptions').where('user_id', '=', userId);
  const rules = kysely.updateTable('rules').where('user_id', '=', userId);
  return [
    kysely.deleteFrom('feed_credentials').where('feed_id', '=', feed.id).compile(),
    // A user with both subscriptions keeps the one that is changed.
    kysely
      .deleteFrom('subscriptions')
      .where('user_id', '=', userId)
      .where('feed_id', '=', next)
      .compile(),
    subscriptions.set({ feed_id: next }).where('feed_id', '=', feed.id).compile(),
    rules.set({ value: next }).where('field', '=', 'feed').where('value', '=', feed.id).compile(),
    ...rest,
  ];
}
