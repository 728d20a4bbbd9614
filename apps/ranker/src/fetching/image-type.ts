/** A picture as its first bytes describe it. */
export interface ImageType {
  /** The content type it is served as. */
  readonly type: string;
  /** In pixels; 0 if the bytes do not say. */
  readonly width: number;
  readonly height: number;
}

type Size = Pick<ImageType, 'width' | 'height'>;

const noSize: Size = { width: 0, height: 0 };

/**
 * The type of a picture by its own bytes: PNG, GIF, JPEG, WebP or AVIF. Undefined for anything
 * else; SVG is a document with scripts, and is no picture here.
 */
export function imageType(bytes: Uint8Array): ImageType | undefined {
  const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (data.length < 24) return undefined;
  const text = data.toString('latin1', 0, 12);
  if (text.startsWith('\x89PNG\r\n\x1a\n')) {
    return { type: 'image/png', width: data.readUInt32BE(16), height: data.readUInt32BE(20) };
  }
  if (/^GIF8[79]a/.test(text)) {
    return { type: 'image/gif', width: data.readUInt16LE(6), height: data.readUInt16LE(8) };
  }
  if (text.startsWith('\xff\xd8\xff')) return { type: 'image/jpeg', ...jpegSize(data) };
  if (/^RIFF....WEBP/s.test(text)) return { type: 'image/webp', ...webpSize(data) };
  if (/^....ftypavi[fs]/s.test(text)) return { type: 'image/avif', ...avifSize(data) };
  return undefined;
}

/** The size of a JPEG, which is in the frame header, behind other segments. */
function jpegSize(data: Buffer): Size {
  for (let at = 2; at + 9 < data.length; ) {
    const marker = data[at + 1] as number;
    if (data[at] !== 0xff) return noSize;
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { width: data.readUInt16BE(at + 7), height: data.readUInt16BE(at + 5) };
    // Fill bytes and markers without a segment.
    const isBare = marker === 0xff || marker === 1 || (marker >= 0xd0 && marker <= 0xd8);
    if (marker === 0xff) at += 1;
    else at += isBare ? 2 : 2 + Math.max(2, data.readUInt16BE(at + 2));
  }
  return noSize;
}

function webpSize(data: Buffer): Size {
  const kind = data.toString('latin1', 12, 16);
  if (data.length < 30) return noSize;
  if (kind === 'VP8X') {
    return { width: data.readUIntLE(24, 3) + 1, height: data.readUIntLE(27, 3) + 1 };
  }
  if (kind === 'VP8L') {
    const bits = data.readUInt32LE(21);
    return { width: (bits & 0x3f_ff) + 1, height: ((bits >>> 14) & 0x3f_ff) + 1 };
  }
  return { width: data.readUInt16LE(26) & 0x3f_ff, height: data.readUInt16LE(28) & 0x3f_ff };
}

/** The size of the largest part of an AVIF, which may have a thumbnail beside the real one. */
function avifSize(data: Buffer): Size {
  let size = noSize;
  for (let at = data.indexOf('ispe'); at !== -1; at = data.indexOf('ispe', at + 4)) {
    if (at + 16 > data.length) break;
    const part = { width: data.readUInt32BE(at + 8), height: data.readUInt32BE(at + 12) };
    if (part.width * part.height > size.width * size.height) size = part;
  }
  return size;
}
