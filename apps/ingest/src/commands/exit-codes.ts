/** A command that makes no sense as it was given. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** What a command ends with; people and schedulers read it. */
export const exitCodes = {
  ok: 0,
  /** Something failed, all of it or a part. */
  failed: 1,
  /** The command, a setting or the list of products was wrong: nothing was begun. */
  usage: 2,
  /** Another process holds the lock of all that was asked for. */
  locked: 3,
  /** Ctrl-C; what was complete is committed. */
  interrupted: 130,
} as const;
