import { crc32 } from 'node:zlib';

/** The direction in which a parameter is tried. */
export type Flip = 1 | -1;

/** Eight flips a byte, the most significant bit first; 1 stands for +1. */
export function packFlips(flips: readonly Flip[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(flips.length / 8));
  for (const [at, flip] of flips.entries()) {
    if (flip === 1) bytes[at >> 3] = (bytes[at >> 3] as number) | (0x80 >> (at & 7));
  }
  return bytes;
}

export function unpackFlips(bytes: ArrayLike<number>, count: number): Flip[] {
  return Array.from({ length: count }, (_, at) => {
    return ((bytes[at >> 3] ?? 0) & (0x80 >> (at & 7))) === 0 ? -1 : 1;
  });
}

/** What a worker sends back to show which flips its games were played with. */
export function flipsSignature(bytes: Uint8Array): number {
  return crc32(bytes);
}
