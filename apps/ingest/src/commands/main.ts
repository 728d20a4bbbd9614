import { setFlagsFromString } from 'node:v8';
import { runMain } from 'spillway-cli';
import { runProgram } from './program.ts';

// Small objects else get a space of up to 128 MB while pages pass through, for no speed (2026-11).
setFlagsFromString('--semi-space-growth-factor=1');
// Pages that were committed are collected soon: some 35 MB less in a harvest. Its CPU time was the
// same in one of two runs and a fifth more in the other, on a busy machine (2026-11).
setFlagsFromString('--heap-growing-percent=10');
await runMain(runProgram);
