import { rankerError } from '../errors.ts';
import { canonicalUrl, webUrl } from '../fetching/canonical-url.ts';
import { checkRule } from '../reader/rule-set.ts';
import { articleId, type StoredArticle } from '../storage/articles.ts';
import { isPrivateUrl } from '../storage/private-feeds.ts';
import type { RankerStorage } from '../storage/ranker-storage.ts';
import { type NewRule, ruleFields } from '../storage/rules.ts';
import { sourceOf } from './library.ts';
import type { RankingWorld } from './ranking-parts.ts';

/** One line of an export. */
export type TransferLine =
  | { readonly type: 'ranker'; readonly version: 1; readonly user: string }
  | {
      readonly type: 'rating';
      readonly url: string;
      readonly title: string;
      readonly text: string;
      readonly published?: number | undefined;
      readonly score: number;
      readonly rated: number;
    }
  | {
      readonly type: 'feed';
      readonly url: string;
      readonly title: string;
      readonly folder: string;
      /** True if the title is the user's own. */
      readonly isNamed?: boolean | undefined;
    }
  | ({ readonly type: 'rule' } & NewRule);

export interface Imported {
  readonly ratings: number;
  readonly feeds: number;
  readonly rules: number;
}

const pageSize = 50;

/** All that a user has given the ranker, so that it can be taken elsewhere. */
export async function* exportLines(
  storage: RankerStorage,
  user: { readonly id: string; readonly name: string },
  signal?: AbortSignal,
): AsyncGenerator<TransferLine> {
  yield { type: 'ranker', version: 1, user: user.name };
  const ratings = await storage.ratings.list(user.id, signal);
  for (let at = 0; at < ratings.length; at += pageSize) {
    const page = ratings.slice(at, at + pageSize);
    const ids = page.map((rating) => rating.articleId);
    const found = await storage.articles.list(ids, signal);
    const byId = new Map(found.map((article) => [article.id, article]));
    for (const rating of page) {
      const article = byId.get(rating.articleId);
      if (article === undefined) continue;
      const { url, title, text, publishedAt: published } = article;
      const { score, ratedAt: rated } = rating;
      yield { type: 'rating', url, title, text, published, score, rated };
    }
  }
  for (const { url, title, folder, isNamed } of await storage.feeds.list(user.id, signal)) {
    yield { type: 'feed', url, title, folder, ...(isNamed && { isNamed }) };
  }
  for (const { kind, field, value, points } of await storage.rules.list(user.id, signal)) {
    yield { type: 'rule', kind, field, value, points };
  }
}

/** Takes all lines or, if one is wrong, none of them; texts that are stored stay. */
export async function importLines(
  { storage, clock }: Pick<RankingWorld, 'storage' | 'clock'>,
  userId: string,
  lines: readonly unknown[],
  signal: AbortSignal,
): Promise<Imported> {
  const now = clock.now();
  const known = lines.map((line, at) => checkedLine(line, at));
  const ratings = known.filter((line) => line.type === 'rating');
  const feeds = known.filter((line) => line.type === 'feed');
  const rules = known.filter((line) => line.type === 'rule');
  const articles = ratings.map((line) => articleOfLine(line, now));
  await storage.userArticles.add(userId, articles, now, signal);
  await storage.ratings.record(
    ratings.map(({ score, rated }, at) => {
      const { id } = articles[at] as StoredArticle;
      // A rating with a time in the future would count for more than all others.
      return { userId, articleId: id, score, predicted: undefined, at: Math.min(rated, now) };
    }),
    signal,
  );
  const subscriptions = feeds.map(({ url, title, folder, isNamed }) => {
    return { url: webUrl(url)?.href ?? url, title, folder, isNamed: isNamed === true };
  });
  await storage.feeds.subscribe(userId, subscriptions, now, signal);
  const there = (await storage.rules.list(userId, signal)).map(ruleText);
  const added = rules.filter((rule) => !there.includes(ruleText(rule)));
  for (const rule of added) await storage.rules.add(userId, rule, now, signal);
  return { ratings: ratings.length, feeds: feeds.length, rules: added.length };
}

function ruleText({ kind, field, value, points }: NewRule): string {
  return JSON.stringify([kind, field, value, points]);
}

function articleOfLine(
  line: Extract<TransferLine, { readonly type: 'rating' }>,
  now: number,
): StoredArticle {
  const isOwn = isPrivateUrl(line.url);
  const url = isOwn ? line.url : (canonicalUrl(line.url) ?? line.url);
  const fetchedAt = line.text === '' ? undefined : now;
  return {
    id: articleId(url),
    url,
    givenUrl: line.url,
    title: line.title,
    text: line.text,
    source: sourceOf(url),
    publishedAt: line.published && Math.min(line.published, now),
    fetchedAt,
    addedAt: now,
  };
}

const rules: Readonly<
  Record<string, (line: Readonly<Record<string, unknown>>) => string | undefined>
> = {
  ranker: ({ version }) => (version === 1 ? undefined : 'version: must be 1'),
  rating: ({ url, title = '', text = '', score, rated, published }) => {
    if (typeof url !== 'string' || !isAddress(url)) return 'url: must be an address';
    if (typeof title !== 'string' || typeof text !== 'string')
      return 'title and text: must be texts';
    if (typeof score !== 'number' || !(score >= 1 && score <= 10)) return 'score: from 1 to 10';
    if (!isTime(rated) || (published !== undefined && !isTime(published))) return 'rated: no time';
    return undefined;
  },
  feed: ({ url, title, folder }) => {
    const isFeed = typeof url === 'string' && canonicalUrl(url) !== undefined;
    if (!isFeed) return 'url: must be an address of the web';
    return typeof title === 'string' && typeof folder === 'string' ? undefined : 'title, folder';
  },
  rule: ({ kind, field, value, points }) => {
    if (kind !== 'mute' && kind !== 'boost') return 'kind: mute or boost';
    if (!ruleFields.some((known) => known === field)) return 'field: not known';
    if (typeof value !== 'string' || typeof points !== 'number') return 'value, points: missing';
    checkRule({ kind, field: field as NewRule['field'], value, points });
    return undefined;
  },
};

function checkedLine(line: unknown, at: number): TransferLine {
  const record = Object(line) as Readonly<Record<string, unknown>>;
  const type = String(record.type);
  const rule = Object.hasOwn(rules, type) ? rules[type] : undefined;
  const fault = rule === undefined ? 'type: must be ranker, rating, feed or rule' : rule(record);
  if (fault !== undefined) throw rankerError('INPUT_INVALID', `line ${at + 1}: ${fault}`);
  return { title: '', text: '', ...record } as unknown as TransferLine;
}

function isAddress(url: string): boolean {
  return (
    url.length <= 4_096 && (canonicalUrl(url) !== undefined || /^(text|sample):[^\s\0]+$/.test(url))
  );
}

function isTime(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < 1e14;
}
