import * as cli from 'spillway-cli';

/** What a command ends with; people and schedulers read it. */
export const exitCodes: typeof cli.exitCodes & {
  /** Another process holds the lock of all that was asked for. */
  readonly locked: 3;
} = { ...cli.exitCodes, locked: 3 };
