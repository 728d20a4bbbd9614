import { mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { replaceFile } from 'spillway/internal';
import { parse, stringify } from 'yaml';
import { ingestError } from '../errors.ts';

/** The list of products to harvest, as people keep it in a file. */
export interface Seed {
  readonly productIds: readonly string[];
  /** Notes for people; the program does not use them. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** Reads the list; a missing or empty file names no products. */
export async function readSeed(path: string): Promise<Seed> {
  let text = '';
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unreadable(path, error);
  }
  let sent: unknown;
  try {
    sent = parse(text) ?? {};
  } catch (error) {
    throw unreadable(path, error);
  }
  const { product_ids: ids, metadata } = Object(sent) as Record<string, unknown>;
  const list = ids ?? [];
  if (!Array.isArray(list) || !list.every((id) => typeof id === 'string' && id !== '')) {
    throw unreadable(path, new Error('product_ids must be a list of names'));
  }
  return { productIds: [...new Set(list)], metadata: Object(metadata ?? {}) };
}

/** Replaces the file atomically; creates its folder. */
export async function writeSeed(path: string, seed: Seed): Promise<void> {
  const { productIds, metadata } = seed;
  const text = stringify({ product_ids: productIds, metadata });
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  await using _file = await replaceFile(path, text, { temporary, mode: 0o644 });
}

function unreadable(path: string, cause: unknown): Error {
  const { message } = cause as Error;
  return ingestError('SEED_UNREADABLE', `${path}: cannot be read: ${message}`, { cause });
}
