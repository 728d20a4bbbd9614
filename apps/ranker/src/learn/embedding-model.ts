import { join } from 'node:path';
import { check } from 'spillway/internal';

/** The formats of stored weights, and the file of each in a model's folder. */
const weightFiles = {
  fp16: 'onnx/model_fp16.onnx',
  fp32: 'onnx/model.onnx',
  int8: 'onnx/model_quantized.onnx',
} as const;

export type Precision = keyof typeof weightFiles;

export interface EmbeddingModel {
  /** The name that is stored with every vector. */
  readonly id: string;
  readonly precision: Precision;
  /** The folder with `tokenizer.json`, `tokenizer_config.json` and the weights in `onnx/`. */
  readonly folder: string;
}

/** The sentence model that comes with the app: 384 numbers a vector, 23 MB, runs offline. */
export function defaultModel(): EmbeddingModel {
  const id = 'Xenova/all-MiniLM-L6-v2';
  const folder = join(import.meta.dirname, '..', '..', 'model');
  return { id, precision: 'int8', folder };
}

/** The path of the model's weights; throws for an unknown precision. */
export function weightFile(precision: string): string {
  const rule = `one of ${Object.keys(weightFiles).join(', ')}`;
  check(Object.hasOwn(weightFiles, precision), 'model.precision', rule, precision);
  return weightFiles[precision as Precision];
}
