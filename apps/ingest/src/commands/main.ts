#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8';

/**
 * Settings of glibc, which reads them when a process starts. By default it keeps memory for each
 * thread and returns little: a harvest took about 316 MB, and 235 with these (2026-11).
 */
const memory = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '65536',
  MALLOC_TRIM_THRESHOLD_: '131072',
};
const isLong = ['run', 'ingest', 'follow', 'transform'].includes(process.argv[2] ?? '');
const isSet = 'MALLOC_ARENA_MAX' in process.env;
// `execve` would lose an IPC channel to the parent.
if (isLong && process.platform === 'linux' && !isSet && !process.send) {
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, words, { ...process.env, ...memory });
}
// The young generation would grow to 128 MB while pages pass through.
setFlagsFromString('--semi-space-growth-factor=1');
// Makes V8 collect committed pages soon. Together both flags reduce a harvest without a rate limit
// from 430 MB to 211-238 MB, for a quarter more time (2026-11).
setFlagsFromString('--heap-growing-percent=50');
const { runMain } = await import('spillway-cli');
const { runProgram } = await import('./program.ts');
await runMain(runProgram);
