import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

/** Of a file of this machine, in hex. */
export async function hashOf(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  const stream = createReadStream(path, signal === undefined ? {} : { signal });
  for await (const chunk of stream) hash.update(chunk as Uint8Array);
  return hash.digest('hex');
}
