import { nextTurn } from 'spillway/internal';

/** Texts that are sent together, in characters: 0.2 ms of work for usual runs (2026-11). */
const chunkSize = 16_384;

/** `{"key":value,…}` in chunks; the event loop turns after each. */
export async function* jsonObject(
  entries: Iterable<readonly [key: string, value: object]>,
): AsyncGenerator<string> {
  let chunk = '{';
  let separator = '';
  for (const [key, value] of entries) {
    chunk += `${separator}${JSON.stringify(key)}:${JSON.stringify(value)}`;
    separator = ',';
    if (chunk.length < chunkSize) continue;
    yield chunk;
    chunk = '';
    await new Promise<void>(nextTurn);
  }
  yield `${chunk}}`;
}
