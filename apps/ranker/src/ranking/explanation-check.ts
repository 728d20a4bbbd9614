import { correlation } from '../learn/evaluation.ts';
import type { Score } from '../learn/score.ts';
import type { RankingWorld } from './ranking-parts.ts';

/** The points that explanations give sentences, compared with what their deletion changes. */
export interface ExplanationCheck {
  readonly articles: number;
  readonly sentences: number;
  /** The share of sentences whose points have the sign of the change. */
  readonly signsRight: number;
  /** The correlation of points and changes, from -1 to 1. */
  readonly correlation: number;
}

/** The newest articles that are looked at: each sentence costs an embedding of its article. */
const articlesMax = 10;
/** Points below this are shown as 0.0, and have no sign. */
const pointsMin = 0.05;

/** Deletes each explained sentence of a user's newest articles, and scores what is left. */
export async function checkExplanations(
  {
    storage,
    ranking,
    tastes,
    embedder,
    clock,
  }: Pick<RankingWorld, 'storage' | 'ranking' | 'tastes' | 'embedder' | 'clock'>,
  userId: string,
  signal: AbortSignal,
): Promise<ExplanationCheck> {
  const found = await storage.userArticles.list({ userId, limit: articlesMax }, signal);
  const told: number[] = [];
  const changes: number[] = [];
  for (const { id, source, feedId, publishedAt } of found) {
    const ranked = await ranking.explain(userId, id, signal);
    if (ranked?.explained === undefined) continue;
    const { article } = ranked;
    for (const sentence of ranked.explained.sentences) {
      const left = { ...article, text: article.text.replace(sentence.text, () => ' ') };
      const document = await embedder.embed(left, { signal, key: userId });
      const about = { id, source: feedId ?? source, publishedAt, document };
      const score = await tastes.score(userId, about, { now: clock.now(), signal });
      told.push(sentence.points);
      changes.push(unlimited(ranked.score) - unlimited(score));
    }
  }
  const signed = [...told.keys()].filter((at) => Math.abs(told[at] as number) >= pointsMin);
  const right = signed.filter(
    (at) => Math.sign(told[at] as number) === Math.sign(changes[at] as number),
  );
  return {
    articles: found.length,
    sentences: told.length,
    signsRight: right.length / signed.length,
    correlation: correlation(told, changes),
  };
}

/** A score before its limits, and before the rating of the article itself. */
function unlimited({ explanation }: Score): number {
  return explanation.contributions
    .filter(({ reason }) => reason !== 'limits' && reason !== 'rated')
    .reduce((sum, { points }) => sum + points, 0);
}
