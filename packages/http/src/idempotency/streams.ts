import { createHash } from 'node:crypto';
import { pipeline, type Readable, Transform } from 'node:stream';

/** Length and hash of a body that is a stream, by which two of them are compared. */
export interface BodyPrint {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Hashes a stream while its handler reads it. The function that it returns gives the print, or
 * undefined until the whole stream was read.
 */
export function overhear(source: Readable): () => BodyPrint | undefined {
  const hash = createHash('sha256');
  let bytes = 0;
  let print: BodyPrint | undefined;
  // Listening alone would start the flow before the handler reads.
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

/**
 * The same stream, at the pace of its reader. Before its end is passed on, `keep` is given all of
 * it, or undefined if it was longer than `bytesMax`; undefined also if it broke off.
 */
export function recorded(
  source: Readable,
  bytesMax: number,
  keep: (body: Buffer | undefined) => Promise<void>,
): Readable {
  let chunks: Buffer[] | undefined = [];
  let bytes = 0;
  let isKept = false;
  const keepOnce = async (): Promise<void> => {
    if (isKept) return;
    isKept = true;
    await keep(chunks && Buffer.concat(chunks));
  };
  const copy = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > bytesMax) chunks = undefined;
      chunks?.push(chunk);
      done(null, chunk);
    },
    flush(done) {
      keepOnce().then(() => done(), done);
    },
  });
  return pipeline(source, copy, (error) => {
    if (!error) return;
    chunks = undefined;
    void keepOnce();
  });
}
