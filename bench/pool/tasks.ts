export function noop(): void {}

export function echo(value: object): object {
  return value;
}

/** Scrambles a number so many times: work that no optimiser leaves out. */
export function spin(iterations: number): number {
  let x = 88_675_123;
  for (let i = 0; i < iterations; i += 1) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
  return x;
}
