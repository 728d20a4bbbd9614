import { setPriority } from 'node:os';

export { compare, compareRated, refit } from './scorer.ts';

export function setup(): void {
  // On Linux this is the priority of this thread alone: whoever waits for a score goes first.
  if (process.platform === 'linux') setPriority(19);
}
