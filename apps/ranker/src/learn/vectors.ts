/** Adds `factor` times a vector to another, for as many numbers as the vector has. */
export function addTo(target: Float32Array, vector: Float32Array, factor: number): void {
  for (let at = 0; at < vector.length; at += 1) {
    target[at] = (target[at] as number) + factor * (vector[at] as number);
  }
}

/** The sum of the products; four sums side by side, since each addition waits for the last. */
export function dot(one: Float32Array, other: Float32Array): number {
  const { length } = one;
  let [a, b, c, d] = [0, 0, 0, 0];
  let at = 0;
  for (; at + 3 < length; at += 4) {
    a += (one[at] as number) * (other[at] as number);
    b += (one[at + 1] as number) * (other[at + 1] as number);
    c += (one[at + 2] as number) * (other[at + 2] as number);
    d += (one[at + 3] as number) * (other[at + 3] as number);
  }
  for (; at < length; at += 1) a += (one[at] as number) * (other[at] as number);
  return a + b + c + d;
}

/** Gives the vector the length 1, unless it is zero, and gives it back. */
export function normalise(vector: Float32Array): Float32Array {
  const norm = Math.sqrt(dot(vector, vector));
  if (norm > 0)
    for (let at = 0; at < vector.length; at += 1) vector[at] = (vector[at] as number) / norm;
  return vector;
}
