import { runProgram } from './program.ts';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Whoever read our output has seen enough.
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.exitCode = await runProgram(process.argv.slice(2));
