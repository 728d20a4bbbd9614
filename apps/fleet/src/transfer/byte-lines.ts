/** A line of an export is a row or a piece of a file, none of which is longer. */
const lineBytesMax = 512 * 1_048_576;
const newline = 0x0a;

/** Lines as bytes, without their ends; what follows the last end is a line too. */
export async function* byteLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      parts.push(chunk.subarray(from, at));
      yield Buffer.concat(parts);
      parts = [];
      bytes = 0;
      from = at + 1;
    }
    if (from === chunk.length) continue;
    parts.push(chunk.subarray(from));
    bytes += chunk.length - from;
    if (bytes > lineBytesMax) throw new Error(`a line has more than ${lineBytesMax} bytes`);
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}
