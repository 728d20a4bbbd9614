import { runMain } from 'spillway-cli';
import { runProgram } from './program.ts';

await runMain(runProgram);
