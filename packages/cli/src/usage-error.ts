/** A command that makes no sense as it was given. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
