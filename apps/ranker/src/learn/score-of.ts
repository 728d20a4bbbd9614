import { type Explanation, type Score, type Serving, scoreUnknown } from './score.ts';
import type { TasteVersion } from './taste-change.ts';
import { reasons } from './taste-reader.ts';
import type { ScoreParts } from './taste-worker.ts';
import type { Trained } from './trained.ts';

/** A score in words that a reader can use; without any rating everything is worth 5.5. */
export function scoreOf(
  parts: ScoreParts | undefined,
  value: TasteVersion,
  version: number,
): Score {
  const serving = servingOf(value.trained);
  if (parts === undefined || value.state === undefined) {
    const contributions = [{ reason: 'start', points: scoreUnknown }] as const;
    const source = { score: scoreUnknown, ratings: 0 };
    const explanation = { serving, neighbours: [], sentences: [], source, contributions };
    return { score: scoreUnknown, version, support: 0, explanation };
  }
  const { rows, ridge } = value.state;
  const [sum, ratings] = parts.source;
  const explanation: Explanation = {
    serving,
    neighbours: parts.neighbours.map(({ row, similarity, weight }) => ({
      id: value.ids[row] as string,
      similarity,
      score: rows.scores[row] as number,
      weight,
    })),
    sentences: parts.sentences,
    source: { score: ratings > 0 ? sum / ratings : ridge.start, ratings },
    contributions: reasons.map((reason, at) => ({ reason, points: parts.points[at] as number })),
  };
  return { score: parts.score, version, support: parts.support, explanation };
}

function servingOf({ blend }: Trained): Serving {
  if (blend === 0) return 'ridge';
  return blend === 1 ? 'network' : 'both';
}
