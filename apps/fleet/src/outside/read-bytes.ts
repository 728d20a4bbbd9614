import { fleetError } from '../errors.ts';
import type { OutsideAnswer } from './outside-host.ts';

/** All of a body, if it is no longer than that. */
export async function readBytes(
  { body, headers }: OutsideAnswer,
  bytesMax: number,
): Promise<Buffer> {
  const tooLong = () => fleetError('OUTSIDE_FAILED', `an answer has more than ${bytesMax} bytes`);
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw tooLong();
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
