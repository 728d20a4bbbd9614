/** The only source of chance: the next number from 0 up to, but not including, 1. */
export type Random = () => number;

/** The machine's own random numbers. */
export const systemRandom: Random = Math.random;

/** The same seed gives the same numbers, on every machine (the sfc32 generator). */
export function seededRandom(seed: number): Random {
  let a = seed | 0;
  let b = 0x9e3779b9;
  let c = 0x243f6a88;
  let counter = 1;
  const next = (): number => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return (sum >>> 0) / 2 ** 32;
  };
  // First outputs of similar seeds are similar, so some are discarded.
  for (let i = 0; i < 12; i += 1) next();
  return next;
}
