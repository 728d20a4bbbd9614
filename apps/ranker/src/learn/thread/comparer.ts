import { setPriority } from 'node:os';

export { compare, compareRated, refit } from './scorer.ts';

export function setup(): void {
  // On Linux this is the priority of this thread alone: whoever waits for a score goes first. Not
  // the lowest one, since a ranking may wait for the end of a task.
  if (process.platform === 'linux') setPriority(10);
}
