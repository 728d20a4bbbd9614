import { type Channel, channel } from 'node:diagnostics_channel';

/**
 * The channels of `node:diagnostics_channel` on which parts publish their events, named `spillway:`
 * and the name here. Each message has `part`, the object it is about. They cost nothing while
 * nobody listens.
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

/** Depth to which refusals are told that were caused by telling another. */
const nestedMax = 8;
let nested = 0;

/**
 * Tells listeners of a refusal. A listener may enter the part again and be refused again: that is
 * told only to a bounded depth, since an overflow of the stack would break any part.
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

/** Calls a hook of the user; an error that it throws becomes a warning. */
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
