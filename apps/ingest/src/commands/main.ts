import { setFlagsFromString } from 'node:v8';
import { runMain } from 'spillway-cli';
import { runProgram } from './program.ts';

// Small objects else get a space of up to 128 MB while pages pass through, for no speed (2026-11).
setFlagsFromString('--semi-space-growth-factor=1');
await runMain(runProgram);
