import { detect } from 'chardet';

/** Bytes that declarations are looked for in; twice what the standard asks. */
const headBytes = 2_048;
/** Bytes from which an encoding is guessed: 10 ms of processor time (2026-11). */
const sampleBytes = 32_768;
/** The largest share of unreadable characters with which a declared encoding is believed. */
const brokenShareMax = 0.1;

/**
 * Decodes a document. Its encoding is that of its byte order mark; or UTF-8, if the bytes are valid
 * UTF-8; or the one of the header; or the one it declares; or a guess from the bytes.
 */
export function decodeText(bytes: Uint8Array, contentType: string): string {
  const marked = byteOrderMark(bytes) ?? wideEncoding(bytes);
  if (marked !== undefined) return decode(bytes, marked) ?? '';
  // No other encoding is valid UTF-8 by accident, and many declarations are out of date.
  const utf8 = decode(bytes, 'utf-8', true);
  if (utf8 !== undefined && !isSevenBit(bytes)) return utf8;
  const header = /charset\s*=\s*["']?([^\s"';,]+)/i.exec(contentType)?.[1];
  for (const label of [header, declaration(bytes), 'utf-8']) {
    // A declaration of UTF-16 that can be read as ASCII is wrong.
    if (label === undefined || /^(utf-?16|ucs-?2|unicode$|iso-10646)/i.test(label)) continue;
    const text = decode(bytes, label);
    if (text !== undefined && brokenShare(text) <= brokenShareMax) return text;
  }
  if (utf8 !== undefined) return utf8;
  const from = bytes.findIndex((byte) => byte >= 0x80);
  const likely = detect(bytes.subarray(from, from + sampleBytes)) ?? '';
  return decode(bytes, likely) ?? decode(bytes, 'windows-1252') ?? '';
}

function decode(bytes: Uint8Array, label: string, fatal = false): string | undefined {
  try {
    return new TextDecoder(label, { fatal }).decode(bytes);
  } catch {
    return undefined;
  }
}

function byteOrderMark([first, second, third]: Uint8Array): string | undefined {
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8';
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  return first === 0xfe && second === 0xff ? 'utf-16be' : undefined;
}

/** Markup in pairs of bytes has a zero in nearly every pair, always on the same side. */
function wideEncoding(bytes: Uint8Array): string | undefined {
  const head = bytes.subarray(0, headBytes);
  let even = 0;
  let odd = 0;
  for (const [at, byte] of head.entries()) {
    if (byte === 0 && at % 2 === 0) even += 1;
    else if (byte === 0) odd += 1;
  }
  const many = head.length / 8;
  if (odd > many && even < odd / 8) return 'utf-16le';
  return even > many && odd < even / 8 ? 'utf-16be' : undefined;
}

function isSevenBit(bytes: Uint8Array): boolean {
  // ISO-2022 switches by escapes and has no high bytes at all.
  return bytes.every((byte) => byte < 0x80) && bytes.includes(0x1b);
}

function declaration(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, headBytes)).toString('latin1');
  const xml = /^\s*<\?xml[^>]*\bencoding\s*=\s*["']([^"']+)/i.exec(head);
  return (xml ?? /<meta[^>]*\bcharset\s*=\s*["']?([^\s"'/>;]+)/i.exec(head))?.[1];
}

function brokenShare(text: string): number {
  let broken = 0;
  let other = 1;
  for (const char of text) {
    if (char === '\uFFFD') broken += 1;
    else if (char > '\u007F') other += 1;
  }
  return broken / (broken + other);
}
