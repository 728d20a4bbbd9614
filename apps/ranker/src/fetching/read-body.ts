import type { IncomingHttpHeaders } from 'node:http';
import { PassThrough, pipeline, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { UnavailableError } from './unavailable.ts';

/** The encodings that `readBody` can undo. */
export const acceptedEncodings = 'gzip, deflate, br';

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  identity: () => new PassThrough(),
};
/** Most encodings of one body: each multiplies the size to which a small one can grow. */
const encodingsMax = 2;

/** Reads and decompresses a body; rejects if it is longer than the limit before or after. */
export async function readBody(
  { headers, body }: { readonly headers: IncomingHttpHeaders; readonly body: Readable },
  bytesMax: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () => new UnavailableError('too_large', `more than ${bytesMax} bytes`);
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of decoded(body, headers) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge();
    chunks.push(chunk);
  }
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

function decoded(body: Readable, headers: IncomingHttpHeaders): Readable {
  const names =
    String(headers['content-encoding'] ?? '')
      .toLowerCase()
      .match(/[^\s,]+/g) ?? [];
  const steps = names.reverse().map((name) => decoders[name]?.());
  if (steps.length > encodingsMax || steps.includes(undefined)) {
    throw new UnavailableError('server_error', `it is encoded as ${names.join(', ')}`);
  }
  // The error of any step reaches the reader of the last.
  const join = (from: Readable, to: Transform) => pipeline(from, to, () => {});
  return (steps as Transform[]).reduce<Readable>(join, body);
}
