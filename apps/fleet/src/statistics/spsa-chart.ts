import { type Spsa, type SpsaParam, type SpsaSample, spsaStep } from './spsa.ts';

/** One moment of a tuning: how far it was, and where each parameter stood. */
export interface SpsaChartRow {
  readonly iter_ratio: number;
  readonly values: readonly number[];
  readonly c_values?: readonly number[];
}

export interface SpsaChart {
  readonly param_names: readonly string[];
  readonly chart_rows: readonly SpsaChartRow[];
}

/** The way of all parameters from their start to where they stand. */
export function spsaChart(spsa: Spsa): SpsaChart {
  const { params, num_iter, param_history: history = [] } = spsa;
  const iterations = sampleIterations(spsa, history);
  const rows: SpsaChartRow[] = [{ iter_ratio: 0, values: params.map(({ start }) => start) }];
  for (const [at, samples] of history.entries()) {
    rows.push({
      iter_ratio: (iterations[at] as number) / num_iter,
      values: samples.map(({ theta }) => theta),
      c_values: samples.map(({ c }) => c),
    });
  }
  const values = params.map(({ theta }) => theta);
  const last = rows.at(-1) as SpsaChartRow;
  if (spsa.iter > 0 && !values.every((value, at) => value === last.values[at])) {
    const c_values = params.map((param) => spsaStep(spsa, param, spsa.iter).c);
    rows.push({ iter_ratio: Math.min(1, spsa.iter / num_iter), values, c_values });
  }
  return { param_names: params.map(({ name }) => name), chart_rows: rows };
}

/** A sample does not say when it was taken, but its c shrinks with the iterations. */
function sampleIterations(spsa: Spsa, history: readonly (readonly SpsaSample[])[]): number[] {
  let last = 0;
  return history.map((samples, at) => {
    const told = samples.flatMap((sample, index) => {
      const param = spsa.params[index];
      return param === undefined ? [] : iterationOf(spsa, param, sample);
    });
    const spread = (spsa.iter * (at + 1)) / (history.length + 1);
    const found = median(told) ?? spread;
    last = Math.min(Math.max(found, last), Math.max(spsa.iter, last));
    return last;
  });
}

function iterationOf({ gamma }: Spsa, param: SpsaParam, { c }: SpsaSample): number[] {
  const iteration = (param.c / c) ** (1 / gamma) - 1;
  return Number.isFinite(iteration) ? [iteration] : [];
}

function median(numbers: readonly number[]): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length % 2 === 1) return sorted[Math.floor(middle)];
  const [low, high] = [sorted[middle - 1], sorted[middle]];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}
