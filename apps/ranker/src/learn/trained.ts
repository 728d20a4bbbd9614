import { type Calibration, identityCalibration } from './calibration.ts';
import type { NetworkShape } from './network.ts';
import { sharedFloats } from './rated-rows.ts';

/** What background training has found for a reader, besides what each rating changes at once. */
export interface Trained {
  /** What leaving nothing said about topics costs ridge regression. */
  readonly penalty: number;
  /** The network's share of the score, from 0 to 1; the rest is ridge regression's. */
  readonly blend: number;
  readonly calibration: Calibration;
  /** Its numbers, in shared memory. */
  readonly network: Float32Array | undefined;
  readonly shape: NetworkShape | undefined;
  /**
   * The reader's profile as the network knew it: with it the network says the same of an article
   * for as long as it serves, whatever is rated meanwhile.
   */
  readonly profile: Float32Array | undefined;
}

/** Before any training. */
export const untrained: Trained = {
  penalty: 1,
  blend: 0,
  calibration: identityCalibration,
  network: undefined,
  shape: undefined,
  profile: undefined,
};

interface Header {
  readonly format: 1;
  readonly penalty: number;
  readonly blend: number;
  readonly kind: Calibration['kind'];
  readonly points: number;
  readonly shape?: NetworkShape | undefined;
}

/** The bytes in which it can be stored: what it is as JSON, then all numbers. */
export function packTrained(trained: Trained): Uint8Array<ArrayBuffer> {
  const { penalty, blend, calibration, network, shape, profile } = trained;
  const { kind, raw, scores } = calibration;
  const header: Header = { format: 1, penalty, blend, kind, points: raw.length, shape };
  // Numbers begin at a multiple of four, so that they can be read where they are.
  const text = Buffer.from(JSON.stringify(header));
  const start = 4 + Math.ceil(text.length / 4) * 4;
  const none = new Float32Array(0);
  const arrays = [raw, scores, profile ?? none, network ?? none];
  const floats = arrays.reduce((sum, { length }) => sum + length, 0);
  const bytes = new Uint8Array(start + 4 * floats);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  const numbers = new Float32Array(bytes.buffer, start);
  let at = 0;
  for (const array of arrays) {
    numbers.set(array, at);
    at += array.length;
  }
  return bytes;
}

/** What {@link packTrained} has packed; throws when it is anything else. */
export function unpackTrained(bytes: Uint8Array): Trained {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const header: Header = JSON.parse(Buffer.from(bytes.subarray(4, 4 + length)).toString());
  if (header.format !== 1) throw new Error(`a trained taste of format ${header.format}`);
  const { penalty, blend, kind, points, shape } = header;
  const rest = bytes.slice(4 + Math.ceil(length / 4) * 4);
  const numbers = new Float32Array(rest.buffer, 0, rest.length / 4);
  const raw = numbers.slice(0, points);
  const scores = numbers.slice(points, 2 * points);
  const calibration = { kind, raw, scores };
  if (shape === undefined) return { ...untrained, penalty, blend, calibration };
  const shared = (part: Float32Array) => {
    const floats = sharedFloats(part.length);
    floats.set(part);
    return floats;
  };
  const from = 2 * points + shape.dimension;
  const profile = shared(numbers.subarray(2 * points, from));
  return { penalty, blend, calibration, shape, profile, network: shared(numbers.subarray(from)) };
}
