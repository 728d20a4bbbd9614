/** Bytes from `start` up to, not including, `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The one range a `Range` header asks for; `'none'` when nothing of it lies inside; undefined when
 * the header is absent, malformed or asks for several, which all mean: send the whole.
 */
export function byteRange(
  header: string | undefined,
  size: number,
): ByteRange | 'none' | undefined {
  const match = /^bytes[ \t]*=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '');
  const [, first = '', last = ''] = match ?? [];
  if (match === null || (first === '' && last === '')) return undefined;
  if (first === '') {
    const length = Number(last);
    if (length === 0) return 'none';
    return size === 0 ? undefined : { start: Math.max(0, size - length), end: size };
  }
  const start = Number(first);
  const end = last === '' ? size : Math.min(size, Number(last) + 1);
  if (last !== '' && Number(last) < start) return undefined;
  return start >= size ? 'none' : { start, end };
}
