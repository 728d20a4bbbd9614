import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { fleetError } from '../errors.ts';

export interface GzipCheckOptions {
  /** The length of the file, in bytes. */
  readonly bytes: number;
  /** The most that may come out of it, in bytes. */
  readonly textBytesMax: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Whether a file is whole gzip from its first byte to its last, so that it can stand between
 * others; throws `REQUEST_INVALID` or `REQUEST_TOO_LARGE`. Nothing of what comes out of it is kept.
 */
export async function checkGzip(path: string, options: GzipCheckOptions): Promise<void> {
  const { bytes, textBytesMax, signal } = options;
  const gunzip = createGunzip({ chunkSize: 262_144 });
  let textBytes = 0;
  const count = async (text: AsyncIterable<Buffer>) => {
    for await (const chunk of text) {
      textBytes += chunk.length;
      if (textBytes > textBytesMax) {
        throw fleetError('REQUEST_TOO_LARGE', `more than ${textBytesMax} bytes of games`);
      }
    }
  };
  const file = createReadStream(path, { highWaterMark: 262_144 });
  try {
    await pipeline(file, gunzip, count, { signal });
  } catch (error) {
    if (!String(Object(error).code).startsWith('Z_')) throw error;
    throw fleetError('REQUEST_INVALID', 'pgn is not gzip', { cause: error });
  }
  // Zeros after the last member are no error of the decoder, but would end a file of many.
  if (bytes === 0 || gunzip.bytesWritten !== bytes) {
    throw fleetError('REQUEST_INVALID', 'pgn is not gzip');
  }
}
