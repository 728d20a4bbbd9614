import { type Channel, channel } from 'node:diagnostics_channel';

/**
 * The channels of `node:diagnostics_channel` on which parts tell what happens to them: each is
 * called `spillway:` and its name here, each message has `part`, the object it is about. They cost
 * nothing while nobody listens.
 */
export const told: Readonly<Record<Told, Channel>> = {
  refused: channel('spillway:refused'),
  opened: channel('spillway:opened'),
  closed: channel('spillway:closed'),
  retried: channel('spillway:retried'),
  recycled: channel('spillway:recycled'),
  lost: channel('spillway:lost'),
  dropped: channel('spillway:dropped'),
};

type Told = 'refused' | 'opened' | 'closed' | 'retried' | 'recycled' | 'lost' | 'dropped';

/** Tells of a caller that a part has turned away. */
export function tellRefusal<E>(part: object, error: E, hook?: (error: E) => void): E {
  if (told.refused.hasSubscribers) told.refused.publish({ part, error });
  if (hook !== undefined) callHook(hook, error);
  return error;
}

/** Calls a hook of the user. One that throws breaks nothing: its error becomes a warning. */
export function callHook<Args extends readonly unknown[]>(
  hook: ((...args: Args) => void) | undefined,
  ...args: Args
): void {
  try {
    hook?.(...args);
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : String(error));
  }
}
