import { type Explanation, type Score, scoreUnknown } from './score.ts';
import type { TasteVersion } from './taste-change.ts';
import { reasons } from './taste-reader.ts';
import type { ScoreParts } from './taste-worker.ts';

/**
 * A score with its explanation. Without any rating everything is worth 5.5; an article that was
 * rated itself is worth its rating.
 */
export function scoreOf(
  parts: ScoreParts | undefined,
  value: TasteVersion,
  version: number,
  rating?: number,
): Score {
  if (parts === undefined || value.state === undefined) {
    const contributions = [{ reason: 'start', points: scoreUnknown }] as const;
    const source = { score: scoreUnknown, ratings: 0 };
    const explanation = { neighbours: [], sentences: [], source, contributions };
    return { score: scoreUnknown, version, support: 0, explanation };
  }
  const { rows, ridge } = value.state;
  const [sum, ratings] = parts.source;
  const score = rating ?? parts.score;
  const contributions: Explanation['contributions'] = [
    ...reasons.map((reason, at) => ({ reason, points: parts.points[at] as number })),
    { reason: 'rated', points: score - parts.score },
  ];
  const explanation: Explanation = {
    neighbours: parts.neighbours.map(({ row, similarity, weight }) => ({
      id: value.ids[row] as string,
      similarity,
      score: rows.scores[row] as number,
      weight,
    })),
    sentences: parts.sentences,
    source: { score: ratings > 0 ? sum / ratings : ridge.start, ratings },
    contributions,
  };
  return { score, version, support: parts.support, explanation };
}
