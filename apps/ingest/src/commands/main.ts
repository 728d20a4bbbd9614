#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8';

/**
 * Settings of glibc, which reads them when a process starts. By itself it keeps memory for each
 * thread and gives back little: a harvest had about 316 MB, and had 235 with these (2026-11).
 */
const memory = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '65536',
  MALLOC_TRIM_THRESHOLD_: '131072',
};
const isLong = ['run', 'ingest', 'follow', 'transform'].includes(process.argv[2] ?? '');
const isSet = 'MALLOC_ARENA_MAX' in process.env;
// A channel to the parent would be lost.
if (isLong && process.platform === 'linux' && !isSet && !process.send) {
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, words, { ...process.env, ...memory });
}
// Small objects else get a space of up to 128 MB while pages pass through.
setFlagsFromString('--semi-space-growth-factor=1');
// Pages that were committed are collected soon. Both flags together make 211 to 238 MB of 430 in a
// harvest without a rate limit, for a quarter more time (2026-11).
setFlagsFromString('--heap-growing-percent=50');
const { runMain } = await import('spillway-cli');
const { runProgram } = await import('./program.ts');
await runMain(runProgram);
