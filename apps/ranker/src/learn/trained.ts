import { type Calibration, identityCalibration } from './calibration.ts';

/** `quick` tries four penalties of ridge regression; `intensive` tries a finer grid of them. */
export type TrainingKind = 'quick' | 'intensive';

/** The state of a training. */
export type TrainingStatus = 'running' | 'completed' | 'cancelled' | 'failed';

/** Mean absolute errors on articles that the model had not seen; NaN when not measured. */
export interface CrossValidatedErrors {
  readonly constant: number;
  readonly neighbours: number;
  readonly ridge: number;
  /** The error of the scores that readers see: ridge regression, calibrated. */
  readonly served: number;
}

/** One line of the training history. Times are milliseconds since 1970. */
export interface TrainingRecord {
  readonly user: string;
  readonly kind: TrainingKind;
  readonly status: TrainingStatus;
  readonly startedAt: number;
  readonly endedAt: number | undefined;
  /** The number of rated articles that it learned from. */
  readonly samples: number;
  /** From 0 to 1. */
  readonly progress: number;
  /** Errors by cross-validation, once they are known. */
  readonly errors: CrossValidatedErrors | undefined;
  /** The version of the taste that it published. */
  readonly version: number | undefined;
  /** The reason of a failure. */
  readonly error: string | undefined;
}

/** The choices of a training for one reader; ratings change a taste at once, without it. */
export interface Trained {
  /** The penalty of ridge regression on the topic's weights. */
  readonly penalty: number;
  readonly calibration: Calibration;
}

/** The choices before any training. */
export const untrained: Trained = { penalty: 1, calibration: identityCalibration };

/** The JSON in front of the numbers. `blend` above 0 is the share of a network, up to 2026-11. */
interface Header {
  readonly format: 1;
  readonly penalty: number;
  readonly blend: number;
  readonly kind: Calibration['kind'];
  readonly points: number;
}

/** Packs the choices into bytes for storing: a header as JSON, then the calibration's numbers. */
export function packTrained({ penalty, calibration }: Trained): Uint8Array<ArrayBuffer> {
  const { kind, raw, scores } = calibration;
  const header: Header = { format: 1, penalty, blend: 0, kind, points: raw.length };
  // Numbers begin at a multiple of four, so that they can be read in place.
  const text = Buffer.from(JSON.stringify(header));
  const start = 4 + Math.ceil(text.length / 4) * 4;
  const bytes = new Uint8Array(start + 8 * raw.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  const numbers = new Float32Array(bytes.buffer, start);
  numbers.set(raw);
  numbers.set(scores, raw.length);
  return bytes;
}

/**
 * Reads the bytes of {@link packTrained}; throws on anything else. A calibration that was fitted to
 * the blend with a network is left out, since the network is not read.
 */
export function unpackTrained(bytes: Uint8Array): Trained {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const header: Header = JSON.parse(Buffer.from(bytes.subarray(4, 4 + length)).toString());
  if (header.format !== 1) throw new Error(`a trained taste of format ${header.format}`);
  const { penalty, blend, kind, points } = header;
  if (blend > 0) return { ...untrained, penalty };
  const start = 4 + Math.ceil(length / 4) * 4;
  // A copy, since a database gives bytes that begin anywhere in a larger buffer.
  const rest = Uint8Array.from(bytes.subarray(start, start + 8 * points));
  const numbers = new Float32Array(rest.buffer);
  const calibration = { kind, raw: numbers.slice(0, points), scores: numbers.slice(points) };
  return { penalty, calibration };
}
