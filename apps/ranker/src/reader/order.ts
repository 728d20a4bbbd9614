import { check, checkNumber } from 'spillway/internal';
import { dot } from '../learn/document.ts';
import type { ReaderArticle } from '../ranking/reader.ts';
import type { Groups } from './duplicates.ts';
import type { Verdict } from './rule-set.ts';
import type { Slices } from './slices.ts';

/** One place of the list: an article, and the others that tell the same story. */
export interface Place {
  readonly article: ReaderArticle;
  readonly others: readonly ReaderArticle[];
  /** The key of the order: the score with boosts, less with age. */
  readonly value: number;
  /** The points that rules have added. */
  readonly boost: number;
  /** True if it is here to learn from, because its score is unsure. */
  readonly isExploration: boolean;
}

/** The articles that are listed: not done with, marked, rated, or all. */
export type Listing = 'new' | 'starred' | 'later' | 'rated' | 'all';
/** `best` is by value; `newest` by time alone. */
export type Sorting = 'best' | 'newest';

export interface OrderOptions {
  /** UNIX milliseconds. */
  readonly nowMs: number;
  readonly listing: Listing;
  /** @default 'best' */
  readonly sorting?: Sorting | undefined;
  /** Articles that stay on the list though they are read. @default none */
  readonly opened?: ReadonlySet<string> | undefined;
  /** The half-life of an article's value, in milliseconds; from 1 h. */
  readonly halfLifeMs: number;
  /** The share of the list for unsure articles, from 0 to 0.5. */
  readonly explorationShare: number;
}

/** The score of an article that has none. */
const scoreUnknown = 5.5;
const scoreMin = 0.1;
/** The expected error of an article of which nothing is known, in points. */
const uncertaintyUnknown = 3;
const dayMs = 86_400_000;
/** The most by which a quiet source ages slower. */
const quietFactorMax = 7;
/** Each tenth place is for a source whose articles age at least twice as slowly. */
const quietPeriod = 10;
const quietTurn = 2;
/** The number of places back that a new place is compared with. */
const sourceWindow = 8;
const topicWindow = 4;
/** The factor on a value for each article of the same source just before. */
const sourceFactor = 0.82;
/** The cosine above which an article counts less, down to half for the same topic. */
const topicAlike = 0.55;
const topicLoss = 0.5;
/** Places that are chosen for variety; the rest of the list is in order of value. */
const variedMax = 200;

/** All articles that are not muted, best first, each exactly once. */
export function* order(
  articles: readonly ReaderArticle[],
  groups: Groups,
  verdicts: ReadonlyMap<string, Verdict>,
  options: OrderOptions,
): Slices<readonly Place[]> {
  checkNumber('halfLifeMs', options.halfLifeMs, 3_600_000);
  checkNumber('explorationShare', options.explorationShare, 0, 0.5);
  check(Number.isFinite(options.nowMs), 'nowMs', 'a time', options.nowMs);
  const halfLife = halfLives(articles, options);
  const stories = Map.groupBy(articles, ({ id }) => groups.get(id) ?? id).values();
  const places: Scored[] = [];
  for (const story of stories) {
    if (isListed(story, options)) {
      const members = story
        .filter(({ id }) => verdicts.get(id)?.isMuted !== true)
        .map((article) => placeOf(article, verdicts, halfLife, options.nowMs))
        .sort((one, other) => rated(other) - rated(one) || byValue(one, other));
      const [best, ...others] = members;
      if (best !== undefined)
        places.push({ ...best, others: others.map(({ article }) => article) });
    }
    yield;
  }
  const isQuiet = ({ article, score }: Scored) =>
    score >= scoreUnknown && Number(halfLife.get(originOf(article))) >= 2 * options.halfLifeMs;
  if (options.sorting === 'newest') return places.sort(byTime);
  return yield* varied(places.sort(byValue), isQuiet, options);
}

/** The feed of an article; the host of one without. The links of an aggregator are one source. */
function originOf({ feedId, source }: ReaderArticle): string {
  return feedId ?? source;
}

/** A place with its score as the user's rules have it. */
interface Scored extends Place {
  readonly score: number;
}

/** Sorts the rated article of a story first: that is the one the user knows. */
function rated({ article }: Place): number {
  return Number(article.vote !== undefined);
}

/** A story is new until one of its articles is rated or read, and rated when one of them is. */
function isListed(
  story: readonly ReaderArticle[],
  { listing, opened }: Pick<OrderOptions, 'listing' | 'opened'>,
): boolean {
  if (listing === 'all') return true;
  if (listing === 'starred') return story.some(({ isStarred }) => isStarred);
  if (listing === 'later') return story.some(({ isLater }) => isLater);
  const isRated = story.some(({ vote }) => vote !== undefined);
  if (listing === 'rated') return isRated;
  return !isRated && !story.some(({ id, isRead }) => isRead && !opened?.has(id));
}

function placeOf(
  article: ReaderArticle,
  verdicts: ReadonlyMap<string, Verdict>,
  halfLife: ReadonlyMap<string, number>,
  nowMs: number,
): Scored {
  const boost = verdicts.get(article.id)?.points ?? 0;
  const { vote, order: given = article.score } = article;
  const score = Math.max(scoreMin, (vote ?? given ?? scoreUnknown) + boost);
  const ageMs = Math.max(0, nowMs - article.publishedAt);
  const value = score * 2 ** (-ageMs / (halfLife.get(originOf(article)) as number));
  return { article, others: [], score, value, boost, isExploration: false };
}

/** Half-lives by source: articles of one that posts rarely stay until about its next one. */
function halfLives(
  articles: readonly ReaderArticle[],
  { nowMs, halfLifeMs }: OrderOptions,
): ReadonlyMap<string, number> {
  const oldest = articles.reduce((least, { publishedAt }) => Math.min(least, publishedAt), nowMs);
  const spanMs = Math.min(30 * dayMs, nowMs - oldest);
  const counts = new Map<string, number>();
  for (const article of articles) {
    const origin = originOf(article);
    counts.set(origin, (counts.get(origin) ?? 0) + 1);
  }
  const factor = (count: number) => Math.min(quietFactorMax, Math.max(1, spanMs / count / dayMs));
  return new Map([...counts].map(([source, count]) => [source, halfLifeMs * factor(count)]));
}

/** The newest first. */
function byTime(one: Place, other: Place): number {
  return other.article.publishedAt - one.article.publishedAt;
}

/** The higher value, then the newer one, then the id: so that the order is always the same. */
function byValue(one: Place, other: Place): number {
  const byAge = other.article.publishedAt - one.article.publishedAt;
  return other.value - one.value || byAge || (one.article.id < other.article.id ? -1 : 1);
}

/** A place that is not taken yet, and how alike the places before it were. */
interface Candidate {
  readonly place: Scored;
  readonly origin: string;
  /** Cosines to the last places that were taken, by their number modulo the window. */
  readonly cosines: Float32Array;
  /** The number of taken places that it was compared with or that are out of the window. */
  compared: number;
}

/** Takes the best place again and again; similarity to the last places lowers a value. */
function* varied(
  places: readonly Scored[],
  isQuiet: (place: Scored) => boolean,
  { explorationShare }: OrderOptions,
): Slices<readonly Place[]> {
  const period = explorationShare > 0 ? Math.round(1 / explorationShare) : Infinity;
  const left = places.map((place): Candidate => {
    const cosines = new Float32Array(topicWindow);
    return { place, origin: originOf(place.article), cosines, compared: 0 };
  });
  const taken: Scored[] = [];
  while (left.length > 0 && taken.length < variedMax) {
    const isTurn = taken.length % period === Math.floor(period / 2);
    const explored = isTurn ? unsurest(left, period) : undefined;
    const isQuietTurn = taken.length % quietPeriod === quietTurn;
    const quiet = isQuietTurn ? left.findIndex(({ place }) => isQuiet(place)) : -1;
    const index = explored ?? (quiet === -1 ? best(left, taken) : quiet);
    const [{ place }] = left.splice(index, 1) as [Candidate];
    taken.push(explored === undefined ? place : { ...place, isExploration: true });
    yield;
  }
  return [...taken, ...left.map(({ place }) => place)];
}

/** The place with the least sure score, of all that are not near the top anyway. */
function unsurest(left: readonly Candidate[], period: number): number | undefined {
  let found: number | undefined;
  let most = 0;
  for (let index = period; index < left.length; index += 1) {
    const { article } = (left[index] as Candidate).place;
    const unsure = article.vote === undefined ? (article.uncertainty ?? uncertaintyUnknown) : 0;
    if (unsure > most) [found, most] = [index, unsure];
  }
  return found;
}

function best(left: readonly Candidate[], taken: readonly Place[]): number {
  const sources = taken.slice(-sourceWindow).map(({ article }) => originOf(article));
  let found = 0;
  let most = -1;
  for (let index = 0; index < left.length; index += 1) {
    const candidate = left[index] as Candidate;
    const { value } = candidate.place;
    // Similarity only lowers a value, so none of the rest can be better.
    if (value <= most) break;
    const same = sources.filter((source) => source === candidate.origin).length;
    const counted = value * sourceFactor ** same;
    // Comparing topics is the expensive part, and can only lower the value.
    if (counted <= most) continue;
    const counts = counted * topicFactor(candidate, taken);
    if (counts > most) [found, most] = [index, counts];
  }
  return found;
}

/** Each pair is compared once, as long as it is within the window. */
function topicFactor(candidate: Candidate, taken: readonly Place[]): number {
  const { place, cosines } = candidate;
  const { vector } = place.article;
  if (vector === undefined) return 1;
  const from = Math.max(candidate.compared, taken.length - topicWindow);
  for (let at = from; at < taken.length; at += 1) {
    const topic = (taken[at] as Place).article.vector;
    const isComparable = topic?.length === vector.length;
    cosines[at % topicWindow] = isComparable ? dot(vector, topic) : 0;
  }
  candidate.compared = taken.length;
  const nearest = Math.max(topicAlike, ...cosines);
  return 1 - (topicLoss * (nearest - topicAlike)) / (1 - topicAlike);
}
