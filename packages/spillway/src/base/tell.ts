import { type Channel, channel } from 'node:diagnostics_channel';

/**
 * The channels of `node:diagnostics_channel` on which parts tell what happens to them: each is
 * called `spillway:` and its name here, each message has `part`, the object it is about. They cost
 * nothing while nobody listens.
 */
export const told: Readonly<Record<EventName, Channel>> = {
  refused: channel('spillway:refused'),
  opened: channel('spillway:opened'),
  closed: channel('spillway:closed'),
  retried: channel('spillway:retried'),
  recycled: channel('spillway:recycled'),
  lost: channel('spillway:lost'),
  dropped: channel('spillway:dropped'),
};

type EventName = 'refused' | 'opened' | 'closed' | 'retried' | 'recycled' | 'lost' | 'dropped';

/** Refusals that may be told while others are told, each caused by the one before. */
const nestedMax = 8;
let nested = 0;

/**
 * Tells of a caller that a part has turned away. A listener that enters the part again, and is
 * refused again, is told of that, but not for ever: an overflow of the stack breaks any part.
 */
export function tellRefusal<E>(part: object, error: E, hook?: (error: E) => void): E {
  if (nested >= nestedMax) return error;
  nested += 1;
  try {
    if (told.refused.hasSubscribers) told.refused.publish({ part, error });
    if (hook !== undefined) callHook(hook, error);
  } finally {
    nested -= 1;
  }
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
