/** The chance that a chi-square variable exceeds `value`; the degrees of freedom must be even. */
export function chiSquareTail(value: number, degrees: number): number {
  // With 2m degrees this is the chance of fewer than m Poisson events; logarithms, because single
  // terms leave the range of numbers for some thousand degrees.
  const mean = value / 2;
  if (mean <= 0) return 1;
  let logTerm = -mean;
  let total = Math.exp(logTerm);
  for (let event = 1; event < degrees / 2; event += 1) {
    logTerm += Math.log(mean / event);
    total += Math.exp(logTerm);
  }
  return Math.min(1, total);
}
