/** What is sent: text, or bytes. */
export type SocketMessage = string | Uint8Array;

/** A ping without content, as it goes over the wire. */
export const pingFrame: Buffer = Buffer.of(0x89, 0);

/** The whole message as one frame, so that any number of sockets can be sent the same bytes. */
export function socketFrame(message: SocketMessage): Buffer {
  const isText = typeof message === 'string';
  const length = isText ? Buffer.byteLength(message) : message.byteLength;
  const head = headLength(length);
  const frame = Buffer.allocUnsafe(head + length);
  frame[0] = isText ? 0x81 : 0x82;
  if (head === 2) {
    frame[1] = length;
  } else if (head === 4) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  if (isText) frame.write(message, head);
  else frame.set(message, head);
  return frame;
}

function headLength(length: number): number {
  if (length < 126) return 2;
  return length < 65_536 ? 4 : 10;
}
