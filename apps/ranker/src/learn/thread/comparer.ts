import { setPriority } from 'node:os';

export { compare, compareRated, refit } from './scorer.ts';

export function setup(): void {
  // On Linux this is the priority of this thread alone: threads that score go first. It is not
  // the lowest one, since a ranking may wait for the end of a task.
  if (process.platform === 'linux') setPriority(10);
}
