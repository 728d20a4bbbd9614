import { setFlagsFromString } from 'node:v8';
import { runMain } from 'spillway-cli';
import { runProgram } from './program.ts';

// Small objects else get a space of up to 128 MB while pages pass through.
setFlagsFromString('--semi-space-growth-factor=1');
// Pages that were committed are collected soon. Both flags together make 213 to 256 MB of 380 to
// 445 in a harvest without a rate limit, for a quarter more CPU time (2026-11).
setFlagsFromString('--heap-growing-percent=10');
await runMain(runProgram);
