import { createReadStream, createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { UsageError } from './program.ts';

/** Writes lines to a file that only its user can read, or to standard output without a name. */
export async function writeBackup(
  lines: AsyncIterable<string>,
  file: string | undefined,
): Promise<void> {
  if (file === undefined) {
    await pipeline(lines, process.stdout, { end: false });
    return;
  }
  // A file of that name is always a whole one.
  const part = `${file}.part`;
  try {
    await pipeline(lines, createWriteStream(part, { flush: true, mode: 0o600 }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  process.stderr.write(`All was written to ${file}. It holds what strangers must not see.\n`);
}

/** Reads a file, or standard input without a name. */
export function readBackup(file: string | undefined): AsyncIterable<Uint8Array> {
  if (file !== undefined) return createReadStream(file);
  if (!process.stdin.isTTY) return process.stdin;
  throw new UsageError('file: is required where standard input is a terminal');
}
