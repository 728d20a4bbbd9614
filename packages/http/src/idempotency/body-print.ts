import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

/** What tells two streams apart. */
export interface BodyPrint {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Listens to a stream that somebody else will read, and takes nothing away. What it gives says what
 * has come, and is undefined until all has.
 */
export function overhear(source: Readable): () => BodyPrint | undefined {
  const hash = createHash('sha256');
  let bytes = 0;
  let print: BodyPrint | undefined;
  // To listen would begin the flow, before its reader is there.
  source.pause();
  source.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    hash.update(chunk);
  });
  source.once('end', () => {
    print = { bytes, sha256: hash.digest('base64url') };
  });
  return () => print;
}

/** Reads the stream to see whether it is the same; no further than the other was long. */
export async function isSame(source: Readable, other: BodyPrint): Promise<boolean> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of source as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > other.bytes) return false;
    hash.update(chunk);
  }
  return bytes === other.bytes && hash.digest('base64url') === other.sha256;
}
