#!/usr/bin/env node
import { fileURLToPath } from 'node:url';
import { launch } from '../../launch.js';

/**
 * Settings of glibc, which reads them when a process starts. By itself it keeps memory for each
 * thread and gives back little: a harvest had about 316 MB, and has 235 with these (2026-11).
 */
const memory = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '65536',
  MALLOC_TRIM_THRESHOLD_: '131072',
};
const isLong = ['run', 'ingest', 'follow', 'transform'].includes(process.argv[2] ?? '');
const isSet = 'MALLOC_ARENA_MAX' in process.env;
// A channel to the parent would be lost.
const canStartAnew = process.platform === 'linux' && 'execve' in process && !process.send;
if (isLong && !isSet && canStartAnew) {
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, words, { ...process.env, ...memory });
}
await launch('ingest', fileURLToPath(new URL('..', import.meta.url)));
