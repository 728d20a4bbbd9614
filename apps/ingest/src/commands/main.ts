import { setFlagsFromString } from 'node:v8';
import { runMain } from 'spillway-cli';
import { runProgram } from './program.ts';

// Small objects else get a space of up to 128 MB while pages pass through, for no speed (2026-11).
setFlagsFromString('--semi-space-growth-factor=1');
// Pages that were committed are collected soon: 40 MB less in a harvest, for 1 % of CPU (2026-11).
setFlagsFromString('--heap-growing-percent=10');
await runMain(runProgram);
