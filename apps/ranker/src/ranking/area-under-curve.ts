/** The predicted score of an article, and its reader's rating. */
export interface Prediction {
  readonly predicted: number;
  readonly score: number;
}

const [liked, disliked] = [8, 3];

/** The share of pairs with the liked article above the disliked one; ties count half. */
export function areaUnderCurve(predictions: readonly Prediction[]): number | undefined {
  const judged = predictions
    .filter(({ score }) => score >= liked || score <= disliked)
    .toSorted((one, other) => one.predicted - other.predicted);
  const likes = judged.filter(({ score }) => score >= liked).length;
  const pairs = likes * (judged.length - likes);
  if (pairs === 0) return undefined;
  let [sum, below] = [0, 0];
  for (const group of Map.groupBy(judged, ({ predicted }) => predicted).values()) {
    const up = group.filter(({ score }) => score >= liked).length;
    const down = group.length - up;
    sum += up * (below + down / 2);
    below += down;
  }
  return sum / pairs;
}
