import { readFileSync } from 'node:fs';
import { UsageError } from 'spillway-cli';

/** A JSON file, or standard input if it is called `-`. */
export function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path === '-' ? 0 : path, 'utf8'));
  } catch (error) {
    throw new UsageError(`${path}: cannot be read as JSON: ${(error as Error).message}`);
  }
}
