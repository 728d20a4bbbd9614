import { ThreadWorker } from 'poolifier';
import { echo, noop, spin } from './tasks.ts';

// A worker of poolifier cannot transfer its result, so the array is copied on the way back.
new ThreadWorker<unknown, unknown>({
  noop: () => noop(),
  echo: (value) => echo(value as object),
  bytes: (value) => value,
  spin: (iterations) => spin(iterations as number),
});
