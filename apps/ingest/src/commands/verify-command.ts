import { Command } from 'commander';

/** stub */
export function verifyCommand(): Command {
  return new Command('verify');
}
